# SPDX-License-Identifier: Apache-2.0
"""Packets pass after each message of a change of programs, even if the controller dies between two messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import count, pairwise, takewhile
from typing import Any

import pytest

from controller.model.config import Config
from controller.model.in_force import CopyRateLimit, InForce, Known
from controller.model.observed import Observed, Port
from controller.program.compile import compile
from controller.program.diff import Change, DeleteGroup, DeleteMeter, diff
from controller.program.program import Flow, Program, ToGroup
from controller.switches.switch import GatewayState
from tests.controller import sites
from tests.controller.core.test_core import all_answer
from tests.controller.pair import CoreAndSwitch
from tests.controller.program.test_compile import CLIENT_GATEWAY_MAC, LAN_GATEWAY_MAC, SERVER, WIFI_MAC
from tests.controller.sites import PORTS
from tests.fakes.packet import Packet, echo, tcp, udp
from tests.fakes.switch import FakeSwitch

SERVER6, PHONE, CLIENT = "fd00::2", "10.1.0.7", "192.168.110.3"
ARRIVING: list[tuple[str, Packet]] = [
    ("c1", tcp(CLIENT, SERVER, eth_dst=CLIENT_GATEWAY_MAC)),
    ("c1", udp(CLIENT, SERVER, udp_dst=5060, eth_dst=CLIENT_GATEWAY_MAC)),
    ("c1", udp(CLIENT, SERVER, udp_dst=5070, eth_dst=CLIENT_GATEWAY_MAC)),
    ("c1", echo(CLIENT, SERVER, eth_dst=CLIENT_GATEWAY_MAC)),
    ("c1", tcp("fd00:110::3", SERVER6, eth_dst=CLIENT_GATEWAY_MAC)),
    ("c1", tcp(CLIENT, PHONE, eth_dst=CLIENT_GATEWAY_MAC)),
    ("lan0", udp(PHONE, SERVER, udp_dst=5060, eth_dst=LAN_GATEWAY_MAC)),
    ("lan0", tcp(PHONE, SERVER, eth_dst=LAN_GATEWAY_MAC)),
    ("wifi0", tcp(SERVER, CLIENT, eth_dst=WIFI_MAC)),
    ("wifi0", udp(SERVER, PHONE, eth_dst=WIFI_MAC)),
    ("lte0", tcp(SERVER, PHONE, eth_dst=PORTS["lte0"].mac)),
    ("lte0", tcp(SERVER6, "fd00:110::3", eth_dst=PORTS["lte0"].mac)),
]


def written(
    *, terminals: Mapping[str, Any] | None = None, uplinks: Mapping[str, Any] | None = None, **home: Any
) -> Config:
    """Return the paper's home site with some parts changed."""
    document = sites.document()
    document["sites"]["home"] |= home
    document["sites"]["home"]["terminals"] |= terminals or {}
    for name, more in (uplinks or {}).items():
        document["sites"]["home"]["uplinks"][name] |= more
    return sites.loaded(document)


TABLET = {"tablet": {"addresses": [{"address": "10.1.0.8", "port": "lan0", "mac": "0a:00:00:00:00:08"}]}}
VOIP = {"voip": {"protocols": ["udp"], "ports": ["5060"]}}
WIDER = {"voip": {"protocols": ["udp"], "ports": ["5060-5075"]}}
BY_DSCP = {"voip": {"protocols": ["udp"], "dscp": ["46"]}}
FILES: dict[str, Config] = {
    "plain": written(),
    "another terminal": written(terminals=TABLET),
    "more is copied": written(bicast=["tcp", "udp"]),
    "all is copied": written(bicast=["all"]),
    "a class": written(classes=VOIP),
    "a wider class": written(classes=WIDER),
    "a class by another field": written(classes=BY_DSCP),
    "a metered uplink": written(uplinks={"lte": {"budget": "1MB/day"}}),
    "all of it": written(terminals=TABLET, bicast=["tcp", "udp"], classes=VOIP, uplinks={"lte": {"budget": "1MB/day"}}),
}
CHANGES = [*pairwise([*FILES, "plain"]), *pairwise([*reversed(FILES), "all of it"])]


@cache
def program(name: str) -> Program:
    site = FILES[name].sites[0]
    observed = Observed(PORTS, sites.learned(site))
    return compile(site, Known(InForce(), observed, rates={"lte": CopyRateLimit(1000, 1000)}))


class ControllerKilled(Exception):
    """The controller has died before the next message."""


class AmbiguousSwitch(FakeSwitch):
    """A switch that prefers the newest or the oldest of two matching flows of one priority."""

    def __init__(self, ports: Mapping[str, Port], takes: int) -> None:
        super().__init__(ports)
        self._takes = takes
        self.dies_after: int | None = None  # messages that still arrive before the controller dies
        self.watch: Callable[[Change], None] | None = None

    def any_of(self, flows: list[Flow], packet: Packet) -> Flow:
        return flows[self._takes]

    def change(self, change: Change) -> None:
        if self.dies_after == 0:
            raise ControllerKilled
        super().change(change)
        if self.dies_after is not None:
            self.dies_after -= 1
        if self.watch is not None:
            self.watch(change)


NEWEST, OLDEST = -1, 0


def holding(program: Program, takes: int = NEWEST) -> FakeSwitch:
    return AmbiguousSwitch(PORTS, takes).load(program)


def ways(switch: FakeSwitch) -> list[set[int]]:
    """Return the ports by which each packet leaves."""
    return [{sent.port for sent in switch.send(packet, PORTS[port].number).sent} for port, packet in ARRIVING]


@cache
def ways_of(name: str) -> list[set[int]]:
    found = ways(holding(program(name)))
    assert all(found), "each packet is forwarded by each program"
    return found


def assert_passing(switch: FakeSwitch, before: list[set[int]], after: list[set[int]], at: object) -> None:
    """Check that a packet leaves by every port of both programs, and by no port of neither."""
    for packet, now, old, new in zip(ARRIVING, ways(switch), before, after, strict=True):
        assert old & new <= now <= old | new, f"after {at}, {packet} leaves by {now}; before by {old}, then by {new}"


def needed(switch: FakeSwitch, change: Change) -> list[Flow]:
    """Return the flows that a switch would remove with a deleted group or meter."""
    match change:
        case DeleteGroup(group_id):
            return [flow for flow in switch.flows.values() if ToGroup(group_id) in flow.actions]
        case DeleteMeter(meter_id):
            return [flow for flow in switch.flows.values() if flow.meter == meter_id]
    return []


@pytest.mark.parametrize("takes", [NEWEST, OLDEST])
@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_packets_pass_after_each_message_of_a_change(before: str, after: str, takes: int) -> None:
    switch = holding(program(before), takes)
    for change in diff(program(before), program(after)):
        assert not needed(switch, change), f"{change} comes before the deletion of flows that need it"
        switch.change(change)
        assert_passing(switch, ways_of(before), ways_of(after), change)
    assert switch.installed().program == program(after)


def dies(pair: CoreAndSwitch, after: int, begin: Callable[[], object]) -> bool:
    """Let the controller die after this many messages. Return False if it has sent all of them."""
    switch = pair.fakes[1]
    assert isinstance(switch, AmbiguousSwitch)
    switch.dies_after = after
    try:
        begin()
        pair.drain()
    except ControllerKilled:
        return True
    finally:
        switch.dies_after = None
    return False


def assert_goes_on(pair: CoreAndSwitch, config: Config, after: int) -> None:
    pair.restart(config)
    pair.drain()
    assert pair.installed() == pair.compiled(), f"it died after {after} messages"
    assert pair.switch().state is GatewayState.STEADY


def follows(before: str, after: str, number: int) -> bool:
    """Return whether a controller with a new file dies after this many messages. A second controller ends its work."""
    switch = AmbiguousSwitch(PORTS, NEWEST)
    pair = CoreAndSwitch(FILES[before], [switch])
    pair.connect()
    pair.drain()
    all_answer(pair)
    switch.watch = lambda change: assert_passing(switch, ways_of(before), ways_of(after), change)
    died = dies(pair, number, lambda: pair.carry(pair.core.reconfigure(FILES[after], pair.now)))
    assert_goes_on(pair, FILES[after], number)
    return died


@pytest.mark.parametrize(
    ("before", "after"), [("plain", "all of it"), ("all of it", "plain"), ("a class", "a class by another field")]
)
def test_next_controller_goes_on_after_a_death_at_any_message(before: str, after: str) -> None:
    assert sum(1 for _ in takewhile(lambda number: follows(before, after, number), count())) > 5


def fills(number: int) -> bool:
    pair = CoreAndSwitch(FILES["plain"], [AmbiguousSwitch(PORTS, NEWEST)])
    died = dies(pair, number, pair.connect)
    assert_goes_on(pair, FILES["plain"], number)
    return died


def test_next_controller_fills_a_switch_left_half_filled() -> None:
    assert sum(1 for _ in takewhile(fills, count())) > 100
