# SPDX-License-Identifier: Apache-2.0
"""The core's thread keeps its clock under any load, and overrides report the results of switches and agents."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import pytest

from controller.core import overrides
from controller.core.core import Core
from controller.edges.runtime import service
from controller.edges.state.store import Store
from controller.features.probing import probe_evaluation
from controller.features.probing.path_record import Estimate, Estimated
from controller.features.steering.mover import Mover
from controller.model.config import Mode
from controller.policy.bandwidth.rates import Unknown
from controller.protocol.orders import AgentEffect, Direct, HangUp
from controller.protocol.reports import AgentClosed, AgentEvent, ProbeReport, Reported, Role
from controller.protocol.requests import OverrideResult
from controller.protocol.switch_messages import (
    Apply,
    Effect,
    NeighbourSeen,
    PortSeen,
    Read,
    Solicited,
    SwitchClosed,
    SwitchEvent,
)
from controller.switches.switch import GatewayState
from tests.controller import sites
from tests.controller.sites import PORTS
from tests.fakes.host import FakeConnection, FakeHost
from tests.fakes.switch import FakeSwitch


def service_at(
    directory: Path, perform: Callable[[Effect | AgentEffect], None] = lambda _: None, written: Any = None
) -> service.Service:
    config = sites.loaded(written or sites.document())
    return service.Service("gateway.yaml", config, Store(str(directory / "state.json")), perform)


def instead(monkeypatch: pytest.MonkeyPatch, method: str, act: Callable[..., object]) -> None:
    """Let the core do this in place of one of its methods, and want nothing."""

    def acts(_core: Core, *given: object) -> Iterator[Effect]:
        act(*given)
        return iter(())

    monkeypatch.setattr(Core, method, acts)


def test_flood_of_events_does_not_stop_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = threading.Semaphore(0)
    monkeypatch.setattr(service, "TICK_S", 0.01)
    instead(monkeypatch, "tick", lambda _now: ticks.release())
    core = service_at(tmp_path)
    instead(monkeypatch, "handle", lambda event, _now: core.post(event))  # another event is always waiting
    core.post(SwitchClosed(1))
    core.start()
    for _ in range(3):
        assert ticks.acquire(timeout=60)
    core.stop()


class PausedService:
    """A service whose core records its events, and gets none while it is held."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.heard: list[SwitchEvent | Mode] = []
        self._go_on = threading.Event()
        instead(monkeypatch, "handle", lambda event, _now: self.heard.append(event))
        self.service = service_at(path)
        self.service.start()
        began = threading.Event()

        def hold() -> None:
            began.set()
            self._go_on.wait(60)

        self.service._inbox.put(hold)
        assert began.wait(60)

    def go_on(self, wish: threading.Thread | None = None) -> None:
        """Wait until the core has got all events, and the override has its result."""
        self._go_on.set()
        if wish is not None:
            wish.join()
        self.service.snapshot()
        while not self.service._inbox.empty():
            time.sleep(0.001)
        self.service.stop()


def _solicited(number: int, in_port: int) -> Solicited:
    asker = IPv6Address("fd00::") + number
    return Solicited(1, in_port, IPv6Address("fd00::1"), asker, "02:00:00:00:00:01")


def test_port_event_and_override_do_not_wait_behind_a_flood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = PausedService(tmp_path, monkeypatch)
    for number in range(100):
        held.service.post(_solicited(number, 1))
    held.service.post(PortSeen(1, "wifi0", None))
    held.service.post(SwitchClosed(1))

    def wished(_core: Core, _name: str, mode: Mode, *_: object) -> tuple[OverrideResult, list[Effect | AgentEffect]]:
        held.heard.append(mode)
        return OverrideResult((), False, 0), []

    rested: list[int] = []
    monkeypatch.setattr(overrides, "mode", wished)
    instead(monkeypatch, "rest", lambda _now: rested.append(len(held.heard)))
    wish = threading.Thread(target=held.service.set_mode, args=("client", Mode.OFF))
    wish.start()
    while len(held.service._inbox._pressing) < 3:
        time.sleep(0.001)
    held.go_on(wish)
    assert held.heard[:3] == [PortSeen(1, "wifi0", None), SwitchClosed(1), Mode.OFF]
    assert held.heard[3:] == [_solicited(number, 1) for number in range(100)]
    assert any(0 < number <= 3 for number in rested), "effects of urgent events do not wait for the packets"


def test_flood_is_limited_per_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = PausedService(tmp_path, monkeypatch)
    told = NeighbourSeen(1, 2, IPv4Address("192.168.110.3"), "02:00:00:00:00:02")
    held.service.post(told)
    for number in range(3 * service.MOST_PACKETS):
        held.service.post(_solicited(number, 1))
    held.service.post(told)
    held.go_on()
    assert len(held.heard) == service.MOST_PACKETS
    assert held.heard[0] == told, "the first event is handled first"
    assert held.heard[2] == told, "and the second one in its turn"
    assert held.heard[-1] == _solicited(3 * service.MOST_PACKETS - 1, 1), "the oldest are dropped, not the newest"


def test_times_are_shown_by_the_current_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = service_at(tmp_path)
    core.start()
    before, real = core.snapshot(), time.time
    monkeypatch.setattr(service.time, "time", lambda: real() + 86400)
    after = core.snapshot()
    monkeypatch.undo()
    core.stop()
    assert after.config_loaded_at - before.config_loaded_at == pytest.approx(86400, abs=60)
    assert after.gateways[0].since - before.gateways[0].since == pytest.approx(86400, abs=60)


class Agent:
    """An agent on the service's own thread, which answers at once or never."""

    def __init__(self, path: Path) -> None:
        world = [FakeConnection.between("203.0.113.5", "192.168.110.3", "192.168.210.3")]
        self.host = FakeHost("relay-1", Role.RELAY, ("203.0.113.5",), world)
        self.answers = True
        self.unanswered: list[Direct] = []
        self.hung_up: list[HangUp] = []
        self.service = service_at(path, self._perform)
        self.service.start()
        self.tell(self.host.opened(1))
        self.tell(self.host.report())

    def tell(self, event: AgentEvent) -> None:
        taken = threading.Event()
        self.service.post(event, taken.set)
        assert taken.wait(60), "the core did not handle it"

    def _perform(self, effect: Effect | AgentEffect) -> None:
        if isinstance(effect, HangUp):
            self.hung_up.append(effect)
            return
        assert isinstance(effect, Direct)
        if effect.session != self.host.session:
            return
        if self.answers:
            self.service.post(self.host.carry_out(effect))
        else:
            self.unanswered.append(effect)


def test_failing_report_ends_only_its_agents_session(
    agent: Agent, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = FakeHost("bad", Role.TERMINAL, ("10.1.0.7",), agent.host.world)
    agent.tell(bad.opened(2))
    real, taken = agent.service._core.steering._reported, threading.Event()

    def fails(mover: Mover, event: Reported, *more: Any) -> Any:
        if event.session == 2:
            raise OverflowError("cannot convert float infinity to integer")
        return real(mover, event, *more)

    monkeypatch.setattr(agent.service._core.steering, "_reported", fails)
    for _ in range(3):  # the first one fails, and the core ignores the others
        agent.service.post(bad.report(), taken.set)
    agent.tell(agent.host.report())
    (hung_up,) = agent.hung_up
    assert (hung_up.session, hung_up.fault) == (2, True) and "its message (Reported)" in hung_up.reason
    assert not taken.is_set(), "it sends no more"
    (said,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert "at a message (Reported) of agent bad" in said.getMessage() and said.exc_info is not None
    agent.tell(AgentClosed(2, "the controller failed"))
    assert [one.name for one in agent.service.snapshot().agents if one.state == "here"] == ["relay-1"]
    agent.tell(bad.opened(3))
    assert len(agent.hung_up) == 1


class Gateway:
    """A switch on the service's own thread, whose answers to orders are held back until released."""

    def __init__(self, path: Path) -> None:
        self.fake = FakeSwitch(PORTS)
        self.ordered = threading.Event()
        self._holds = False
        self._answers: list[SwitchEvent] = []
        written = sites.document()
        for hop in written["sites"]["home"]["uplinks"]["lte"]["next_hops"]:
            hop["mac"] = sites.LTE_HOP_MAC
        self.service = service_at(path, self._perform, written)
        self.service.start()
        self.service.post(self.fake.opened(1))
        while self.service.snapshot().gateways[0].state is not GatewayState.STEADY:
            time.sleep(0.001)
        self._holds = True
        self.ordered.clear()

    def let_go(self, *instead: SwitchEvent) -> None:
        for answer in instead or self._answers:
            self.service.post(answer)
        self._answers = []

    def _perform(self, effect: Effect | AgentEffect) -> None:
        match effect:
            case Read():
                self.service.post(self.fake.read(effect))
            case Apply():
                self._answers += self.fake.apply(effect)
                self.ordered.set()
                if not self._holds:
                    self.let_go()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    made = Gateway(tmp_path)
    yield made
    made.service.stop()


def test_unconfirmed_change_is_reported_as_sent(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated override gets the same answer while the first one is unconfirmed."""
    monkeypatch.setattr(service, "HANDS_WITHIN_S", 0.05)
    sent = "the change was sent to gateway home, whose switch has not confirmed it within 0.05 s"
    late = (f"{sent}; `./bicast status` shows its state",)
    first, again = (gateway.service.set_mode("client", Mode.SINGLE) for _ in range(2))
    assert (first.done, first.failed) == (("client is in mode single",), late)
    assert (again.done, again.failed) == (("client is already in mode single",), late)
    gateway.let_go()
    monkeypatch.setattr(service, "HANDS_WITHIN_S", 60.0)
    assert gateway.service.set_mode("client", Mode.SINGLE).failed == ()


def test_switch_that_leaves_ends_the_wait_and_is_named(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "HANDS_WITHIN_S", 60.0)

    def leaves_once_ordered() -> None:
        gateway.ordered.wait(60)
        gateway.let_go(SwitchClosed(1))

    threading.Thread(target=leaves_once_ordered, daemon=True).start()
    (left,) = gateway.service.set_mode("client", Mode.SINGLE).failed
    assert left.startswith("gateway home: the switch disconnected before it answered; the missing changes are sent")


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    made = Agent(tmp_path)
    yield made
    made.service.stop()


def test_override_reports_what_switch_and_agent_did(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "HANDS_WITHIN_S", 60.0)
    asked = time.monotonic()
    answer = agent.service.set_active("client", "lte")
    kept = "client has lte as its active uplink; the setting is saved and applies once gateway home connects"
    assert answer.done == (kept, "relay-1 reached 1 connection: Prefer is done")
    assert time.monotonic() - asked < 30


def test_slow_agent_is_named_and_its_answer_is_kept(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "HANDS_WITHIN_S", 0.05)
    agent.answers = False
    answer = agent.service.set_active("client", "lte")
    assert answer.done[1] == "relay-1 has not answered yet; `./bicast why client` shows the result"
    for late in agent.unanswered:
        agent.tell(agent.host.carry_out(late))
    newest = agent.service.decisions("client").decisions[0]
    assert [(host.agent, host.done) for host in newest.outcomes] == [(None, False), ("relay-1", True)]


def test_agent_that_leaves_ends_the_wait(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "HANDS_WITHIN_S", 60.0)
    agent.answers = False

    def goes_once_asked() -> None:
        while not agent.unanswered:
            time.sleep(0.001)
        agent.service.post(AgentClosed(1, "it was ended"))

    threading.Thread(target=goes_once_asked, daemon=True).start()
    answer = agent.service.set_active("client", "lte")
    assert answer.failed == ("relay-1 could not: its session ended before it answered (it was ended)",)


def test_policy_decisions_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "TICK_S", 0.02)
    agent = Agent(tmp_path)
    (connection,) = agent.host.world
    connection.subflows[1].server.backup = True
    for _ in range(6):
        connection.download(100, loss=0.3)
        agent.tell(agent.host.report())
    agent.service.stop()
    assert Store(str(tmp_path / "state.json")).load().decisions.active == {"client": "lte"}


def test_long_estimates_run_beside_the_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = Estimate("home", "wifi", False, ProbeReport(1, 1, "", "", ()), None, None, 0.0)
    threads: dict[str, str] = {}
    over = threading.Event()

    def handle(_core: Core, event: object, _now: float) -> Iterator[Estimate]:
        threads[type(event).__name__] = threading.current_thread().name
        if isinstance(event, Estimated):
            assert event.of is order
            over.set()
            return iter(())
        return iter((order,))

    def estimated(given: Estimate) -> Estimated:
        threads["estimate"] = threading.current_thread().name
        return Estimated(given, Unknown("nothing"), Unknown("nothing"), None)

    monkeypatch.setattr(Core, "handle", handle)
    monkeypatch.setattr(probe_evaluation, "estimated", estimated)
    core = service_at(tmp_path)
    core.start()
    core.post(SwitchClosed(1))
    assert over.wait(60)
    core.stop()
    assert threads == {"SwitchClosed": "core", "estimate": "estimates", "Estimated": "core"}
