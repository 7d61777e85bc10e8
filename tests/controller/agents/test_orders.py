# SPDX-License-Identifier: Apache-2.0
"""For each kind of order: what happens when its result is lost, late, refused or comes twice, and when sessions end.

The agent of these tests carries out every order in memory, and its reports show what it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest

from controller.agents.agent import Agent
from controller.agents.order_kinds import LEASE_MS, OrderKind
from controller.agents.order_slot import AGAIN_AFTER_S, ANSWERED_WITHIN_S
from controller.agents.registry import AgentRegistry
from controller.protocol.orders import (
    AnswerProbes,
    AnswerSession,
    Cap,
    Caps,
    Choices,
    Direct,
    Eliminate,
    HealthPath,
    HealthProbes,
    Intercept,
    InterceptedTerminal,
    ProbeRoute,
    Relay,
    RelayChoice,
    ReportEvery,
    Tickets,
    TunnelOrder,
    Tunnels,
)
from controller.protocol.reports import AgentClosed, Resulted, Role
from tests.controller import sites
from tests.fakes.holder import KINDS, FakeHolder

CONFIG = sites.loaded(sites.document())


def _eliminate(port: str) -> Eliminate:
    return Eliminate((("wifi", port, None), ("lte", "lte0", None)))


def _tunnels(name: str) -> Tunnels:
    return Tunnels((TunnelOrder(name, "tn-1", 9, 4789, None, None),))


def _health(name: str) -> HealthProbes:
    return HealthProbes((HealthPath(name, ProbeRoute(None, None, "192.0.2.1"), 8620, 1, 100, 1),))


def _sessions(number: int) -> AnswerProbes:
    return AnswerProbes((AnswerSession(number, 8620, 8630, 1),))


def _intercept(name: str) -> Intercept:
    return Intercept(terminals=(InterceptedTerminal(name, (), ()),))


def _choices(prefix: str) -> Choices:
    return Choices((RelayChoice(prefix, ("oslo",)),))


def _caps(segments: int) -> Caps:
    return Caps(LEASE_MS, (Cap("10.1.0.7", "192.0.2.1", segments),))


# Two different orders of each kind
CASES: dict[str, tuple[Any, Any]] = {
    "ELIMINATION": (_eliminate("wifi0"), _eliminate("wifi1")),
    "TUNNEL_ENDS": (_tunnels("wifi"), _tunnels("lte")),
    "PROBE_ANSWERS": (_sessions(1), _sessions(2)),
    "HEALTH_PROBES": (_health("wifi"), _health("lte")),
    "RELAYING": (Relay(443), Relay(444)),
    "INTERCEPTION": (_intercept("phone"), _intercept("laptop")),
    "WINDOW_CAPS": (_caps(9), _caps(10)),
    "REPORT_INTERVAL": (ReportEvery(250), ReportEvery(500)),
    "RELAY_CHOICES": (_choices("192.0.2.0/24"), _choices("198.51.100.0/24")),
}
NAMES = sorted(KINDS)
# A lease renews caps, and reports show neither choices nor the interval.
SHOWN = [name for name in NAMES if name not in ("WINDOW_CAPS", "RELAY_CHOICES", "REPORT_INTERVAL")]
ABLE = [name for name in NAMES if KINDS[name].capability is not None]


def test_every_kind_of_order_is_tried() -> None:
    assert CASES.keys() == KINDS.keys()


@dataclass
class World:
    """One registry, one agent, and the order that is wanted of it."""

    name: str
    wanted: Any
    now: float = 100.0
    registry: AgentRegistry = field(default_factory=lambda: AgentRegistry(CONFIG, Tickets()))
    session: int = 0

    def __post_init__(self) -> None:
        self.kind: OrderKind[Any] = KINDS[self.name]
        self.host = FakeHolder("a", Role.GATEWAY, capabilities=(self.kind.capability or "report",))
        self.join()

    def join(self, lacks: str = "") -> None:
        self.session += 1
        opened = self.host.opened(self.session)
        unable = tuple(replace(each, available=not lacks, reason=lacks) for each in opened.capabilities)
        self.registry.on_event(replace(opened, capabilities=unable), self.now)

    @property
    def agent(self) -> Agent:
        found = self.registry.of(self.session)
        assert found is not None
        return found

    @property
    def holds(self) -> Any:
        return self.host.has.get(type(self.wanted), self.kind.nothing)

    def due(self, later_s: float = 0.0) -> list[Direct]:
        self.now += later_s
        return list(self.agent.order(self.kind, self.wanted, self.now))

    def result(self, direct: Direct) -> Resulted:
        """Return the result of an order that the agent carries out."""
        return self.host.carry_out(direct)

    def tell(self, event: Resulted | AgentClosed) -> None:
        self.registry.on_event(event, self.now)

    def report(self) -> None:
        self.registry.on_event(self.host.report(), self.now)

    def settled(self) -> Iterator[bool]:
        """Yield whether nothing is sent, or what the agent has is renewed, at many later times."""
        for _ in range(20):
            self.report()
            sent = self.due(AGAIN_AFTER_S)
            for direct in sent:
                self.tell(self.result(direct))
            leased = self.kind.lease_s is not None and self.wanted != self.kind.nothing
            yield [each.order for each in sent] == ([self.wanted] if leased else [])


@pytest.fixture(params=NAMES)
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param, CASES[request.param][0])


def acknowledged(world: World) -> None:
    (direct,) = world.due()
    world.tell(world.result(direct))
    world.report()
    assert world.holds == world.wanted


def test_acknowledged_order_is_sent_once(world: World) -> None:
    acknowledged(world)
    assert all(world.settled())
    assert world.agent.slot(world.kind).acknowledged == world.wanted


def test_order_without_a_result_is_repeated(world: World) -> None:
    (lost,) = world.due()
    assert not world.due(ANSWERED_WITHIN_S - 0.1)
    (again,) = world.due(0.1)
    assert again.order == lost.order and again.directive != lost.directive
    world.tell(world.result(again))
    assert all(world.settled())


def test_late_result_of_a_repeated_order_does_not_count(world: World) -> None:
    (late,) = world.due()
    (again,) = world.due(ANSWERED_WITHIN_S)
    world.host.refuses = "too late"
    world.tell(world.result(late))
    assert world.agent.slot(world.kind).refused is None
    world.host.refuses = ""
    world.tell(world.result(again))
    assert all(world.settled())


def test_refused_order_is_repeated_after_a_while(world: World) -> None:
    world.host.refuses = "no such device"
    (refused,) = world.due()
    world.tell(world.result(refused))
    assert world.agent.slot(world.kind).refused == "no such device"
    assert world.agent.slot(world.kind).acknowledged is None
    assert not world.due(AGAIN_AFTER_S - 0.1)
    world.host.refuses = ""
    (again,) = world.due(0.1)
    world.tell(world.result(again))
    assert world.agent.slot(world.kind).refused is None
    assert all(world.settled())


def test_lease_is_renewed_in_time() -> None:
    world = World("WINDOW_CAPS", CASES["WINDOW_CAPS"][0])
    acknowledged(world)
    renewed_at = []
    for _ in range(60):
        for direct in world.due(0.1):
            renewed_at.append(world.now)
            world.tell(world.result(direct))
    assert max(b - a for a, b in pairwise([100.0, *renewed_at])) <= LEASE_MS / 1000 / 2


def test_second_result_changes_nothing(world: World) -> None:
    (direct,) = world.due()
    result = world.result(direct)
    world.tell(result)
    world.tell(replace(result, done=False, answer="once more"))
    assert world.agent.slot(world.kind).refused is None
    assert all(world.settled())


def test_change_waits_for_the_open_order(world: World) -> None:
    (first,) = world.due()
    world.wanted = CASES[world.name][1]
    assert not world.due(1.0)
    world.tell(world.result(first))
    (second,) = world.due()
    assert second.order == world.wanted
    world.tell(world.result(second))
    assert all(world.settled())


@pytest.mark.parametrize("name", SHOWN)
def test_what_a_report_does_not_show_is_ordered_again(name: str) -> None:
    world = World(name, CASES[name][0])
    acknowledged(world)
    world.host.has.clear()
    world.report()
    (again,) = world.due(AGAIN_AFTER_S)
    assert again.order == world.wanted


def test_restarted_agent_is_ordered_again(world: World) -> None:
    acknowledged(world)
    world.tell(AgentClosed(world.session, "it was killed"))
    world.host.has.clear()
    world.join()
    acknowledged(world)
    assert all(world.settled())


def test_new_session_gets_the_order_although_the_last_one_left_it_open(world: World) -> None:
    (open_one,) = world.due()
    world.tell(AgentClosed(world.session, "the network failed"))
    world.join()
    (again,) = world.due()
    assert again.session != open_one.session
    world.tell(replace(world.result(again), directive=open_one.directive, done=False))
    world.tell(world.result(again))
    assert world.agent.slot(world.kind).refused is None
    assert all(world.settled())


def test_restarted_controller_orders_what_the_agent_holds_already(world: World) -> None:
    acknowledged(world)
    world.registry = AgentRegistry(CONFIG, Tickets())
    world.join()
    acknowledged(world)
    assert all(world.settled())


def test_nothing_is_ordered_again_once_it_is_gone(world: World) -> None:
    acknowledged(world)
    world.wanted = world.kind.nothing
    acknowledged(world)
    assert all(world.settled())


def test_agent_that_should_have_nothing_gets_an_order_only_if_something_may_be_there(world: World) -> None:
    world.wanted = world.kind.nothing
    assert bool(world.due()) is world.kind.outlives


@pytest.mark.parametrize("name", ABLE)
def test_agent_without_the_capability_gets_no_order(name: str) -> None:
    world = World(name, CASES[name][0])
    world.join(lacks="its kernel is too old")
    assert not world.due() and not world.due(1000.0)
    assert world.agent.slot(world.kind).unable == "its kernel is too old"
