"""The internet beyond a site: its exit is the way on for the other end's terminals, and strangers answer through it.

    ENTRY   at the exit's port what is in a stranger's name goes on as well, past ROUTE: it is for the other end's
            terminals, to whom LEAVE leads it as it leads all that goes there, and for nobody else
    LEAVE   what the other end's terminals send to strangers goes to the exit

Nobody is a stranger who has a place at either end or between the two (sources.py): that is neither led on from here nor
believed from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.model import Site
from controller.program import DecTtl, Flow, ToGroup, fields
from controller.tables.leaving import LEAVE
from controller.tables.responders import ENTRY
from controller.tables.served import Served, answered, served
from controller.tables.sources import of_no_stranger, written_mac

UNBELIEVED_PRIORITY, STRANGERS_PRIORITY = 8, 6  # ENTRY: below what a terminal's own address forwards
NOWHERE_PRIORITY, BEYOND_PRIORITY = 60, 50  # LEAVE: above what goes by source or comes back


def exits(site: Site) -> tuple[Served, ...]:
    """The addresses of its exit, one of a family at most."""
    return tuple(each for each in served(site) if each.terminal.exit)


def entering(site: Site, each: Served, in_port: int, mac: str) -> Iterator[Flow]:
    """From beyond, by the exit's port; `mac` is the gateway's there."""
    family = each.family
    for network in of_no_stranger(site, family):
        claimed = fields(in_port=in_port, eth_type=family.eth_type, **{family.source: network})
        yield Flow(ENTRY, UNBELIEVED_PRIORITY, claimed)
    match = fields(in_port=in_port, eth_dst=mac, eth_type=family.eth_type, **written_mac(each.place))
    yield Flow(ENTRY, STRANGERS_PRIORITY, match, goto=LEAVE)


def leading_on(site: Site, uplinks: Iterable[int]) -> Iterator[Flow]:
    """By no other port comes what is of an address at the other end, so the port need not be asked for again."""
    to = {each.family: (DecTtl(), ToGroup(each.delivery.group_id)) for each in exits(site)}
    for family in to:
        for in_port in uplinks:
            for network in of_no_stranger(site, family):
                match = fields(in_port=in_port, eth_type=family.eth_type, **{family.destination: network})
                yield Flow(LEAVE, NOWHERE_PRIORITY, match)
    for each in answered(site):
        if each.family in to:
            match = fields(eth_type=each.family.eth_type, **{each.family.source: each.address})
            yield Flow(LEAVE, BEYOND_PRIORITY, match, to[each.family])
