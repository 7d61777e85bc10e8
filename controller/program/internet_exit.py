# SPDX-License-Identifier: Apache-2.0
"""The exit of a site: the way to the internet for the terminals of its peer site, and back.

At the exit's port, packets with a source outside both sites go straight to LEAVE: they can only be for the other site's
terminals. Addresses at either site or between the two are never on the internet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.model.config import Site
from controller.program.antispoofing import not_on_internet, written_mac
from controller.program.groups import Served, answered, served
from controller.program.program import DecTtl, Flow, ToGroup, fields
from controller.program.tables import (
    ENTRY,
    EXIT_DROP_PRIORITY,
    EXIT_FORGED_PRIORITY,
    EXIT_FORWARD_PRIORITY,
    EXIT_PRIORITY,
    LAN_EXIT_PRIORITY,
    LEAVE,
)


def exits(site: Site) -> tuple[Served, ...]:
    """Return the addresses of the exit, at most one per family."""
    return tuple(each for each in served(site) if each.terminal.exit)


def entering(site: Site, each: Served, in_port: int, mac: str) -> Iterator[Flow]:
    """Yield flows for packets from the internet. `mac` is the gateway's at the exit's port."""
    family = each.family
    for network in not_on_internet(site, family):
        claimed = fields(in_port=in_port, eth_type=family.eth_type, **{family.source: network})
        yield Flow(ENTRY, EXIT_FORGED_PRIORITY, claimed)
    match = fields(in_port=in_port, eth_dst=mac, eth_type=family.eth_type, **written_mac(each.place))
    yield Flow(ENTRY, EXIT_FORWARD_PRIORITY, match, goto=LEAVE)


def leading_on(site: Site, uplinks: Iterable[int]) -> Iterator[Flow]:
    """Yield flows to the exit. Peer sources arrive by uplinks only, so the flows do not match a port."""
    to = {each.family: (DecTtl(), ToGroup(each.delivery.group_id)) for each in exits(site)}
    for family in to:
        for in_port in uplinks:
            for network in not_on_internet(site, family):
                match = fields(in_port=in_port, eth_type=family.eth_type, **{family.destination: network})
                yield Flow(LEAVE, EXIT_DROP_PRIORITY, match)
    for each in answered(site):
        if each.family in to:
            match = fields(eth_type=each.family.eth_type, **{each.family.source: each.address})
            yield Flow(LEAVE, LAN_EXIT_PRIORITY if each.network else EXIT_PRIORITY, match, to[each.family])
