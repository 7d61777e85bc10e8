"""What agents report of connections that are carried to relays, and of how far places are.

A gateway's word has relays' hosts walk: so what it seeks counts where it is of the Internet, and is not near a relay.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address, ip_network

from api import agent_pb2 as pb
from controller.agency import texts
from controller.carried import Relaying, RelayReached, Router, Sought, Taking, TerminalTaken, Walked, Way
from controller.relays import MOST_RELAYS, PREFIXES

MOST_TERMINALS = 250
MOST_SOUGHT = 64
MOST_WAYS = 64
MOST_ROUTERS = 30
LONGEST_RTT_US = 60_000_000  # nobody who walks waits for so long


def relaying(one: pb.Relaying) -> Relaying:
    return Relaying(
        because=texts.text(one.because),
        draining=one.draining,
        connections=one.connections,
        waiting=one.waiting,
        carried=one.carried,
        refused=one.refused,
        failed=one.failed,
        strangers=one.strangers,
        bytes_up=one.bytes_up,
        bytes_down=one.bytes_down,
        overhead_us=one.overhead_us,
        busy_percent=min(one.busy_percent, 100),
        congestion=texts.text(one.congestion),
    )


def taking(one: pb.Taking) -> Taking:
    for told, most, what in (
        (one.relays, MOST_RELAYS, "relays"),
        (one.terminals, MOST_TERMINALS, "terminals that are taken"),
        (one.sought, MOST_SOUGHT, "places that are sought"),
    ):
        if len(told) > most:
            raise texts.against(f"tells of {len(told)} {what}: expected {most} at most")
    _check_once((relay.name for relay in one.relays), "relay")
    _check_once((terminal.name for terminal in one.terminals), "terminal that is taken")
    return Taking(
        because=texts.text(one.because),
        relays=tuple(
            RelayReached(
                texts.text(relay.name), texts.text(relay.because), relay.connections, relay.opened, relay.setup_us
            )
            for relay in one.relays
        ),
        terminals=tuple(
            TerminalTaken(
                texts.text(terminal.name),
                terminal.connections,
                terminal.relayed,
                terminal.direct,
                terminal.reset,
                terminal.bytes_up,
                terminal.bytes_down,
            )
            for terminal in one.terminals
        ),
        sought=tuple(found for each in one.sought if (found := _sought(each.prefix, each.address, each.port))),
    )


@lru_cache(maxsize=1 << 12)
def _sought(prefix: str, address: str, port: int) -> Sought | None:
    """None: it is nothing that a relay reaches."""
    try:
        network, found = ip_network(prefix), ip_address(texts.address(address))
    except ValueError:
        raise texts.against(f"seeks {texts.text(address)!r} in {texts.text(prefix)!r}, which are none") from None
    if network.prefixlen != PREFIXES[network.version] or found not in network:
        raise texts.against(f"seeks {found} in {network}: expected a /24 or a /48 that has it")
    if not 1 <= port <= 65535:
        raise texts.against(f"seeks port {port} of {found}: expected 1 to 65535")
    return Sought(str(network), str(found), port) if found.is_global and not found.is_multicast else None


def walked(session: int, word: pb.Walked) -> Walked:
    if len(word.ways) > MOST_WAYS:
        raise texts.against(f"walked {len(word.ways)} ways: expected {MOST_WAYS} at most")
    return Walked(session, word.directive, tuple(map(_way, word.ways)))


def _way(one: pb.Way) -> Way:
    if len(one.routers) > MOST_ROUTERS:
        raise texts.against(f"tells of {len(one.routers)} routers on one way: expected {MOST_ROUTERS} at most")
    routers = tuple(Router(texts.address(router.address), _rtt_us(router.rtt_us)) for router in one.routers)
    return Way(texts.address(one.address), texts.text(one.because), _rtt_us(one.rtt_us), routers)


def _rtt_us(told: int) -> int:
    if told > LONGEST_RTT_US:
        raise texts.against(f"tells of a round trip of {told} us: expected {LONGEST_RTT_US} at most")
    return told


def _check_once(names: Iterable[str], what: str) -> None:
    told = list(names)
    if len(set(told)) < len(told):
        raise texts.against(f"tells twice of one {what}")
