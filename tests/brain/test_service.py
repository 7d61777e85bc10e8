"""The core's thread keeps time whatever is thrown at it, and people are told what both hands did."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller import service
from controller.core import Core
from controller.events import Effect, SwitchClosed
from controller.reports import AgentClosed, AgentEffect, AgentEvent, Direct, Role
from controller.store import Store
from tests.brain import sites
from tests.fakes.hand import FakeConnection, FakeHand


def test_a_flood_of_events_does_not_stop_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = threading.Semaphore(0)

    def tick(_core: Core, _now: float) -> Iterator[Effect]:
        ticks.release()
        return iter(())

    monkeypatch.setattr(service, "TICK_S", 0.01)
    monkeypatch.setattr(Core, "tick", tick)
    config = sites.loaded(sites.document())
    core = service.Service("gateway.yaml", config, Store(str(tmp_path / "state.json")), lambda _effect: None)

    def flood(_core: Core, event: SwitchClosed, _now: float) -> Iterator[Effect]:
        core.post(event)  # there is always another one waiting
        return iter(())

    monkeypatch.setattr(Core, "handle", flood)
    core.post(SwitchClosed(1))
    core.start()
    for _ in range(3):
        assert ticks.acquire(timeout=5)
    core.stop()


class Agent:
    """A hand on the service's own thread, that answers at once or not at all."""

    def __init__(self, path: Path) -> None:
        world = [FakeConnection.between("203.0.113.5", "192.168.110.3", "192.168.210.3")]
        self.hand = FakeHand("relay-1", Role.RELAY, ("203.0.113.5",), world)
        self.answers = True
        self.unanswered: list[Direct] = []
        config = sites.loaded(sites.document())
        self.service = service.Service("gateway.yaml", config, Store(str(path / "state.json")), self._perform)
        self.service.start()
        self.tell(self.hand.opened(1))
        self.tell(self.hand.report())

    def tell(self, event: AgentEvent) -> None:
        taken = threading.Event()
        self.service.post(event, taken.set)
        assert taken.wait(5), "the core did not take it"

    def _perform(self, effect: Effect | AgentEffect) -> None:
        assert isinstance(effect, Direct)
        if self.answers:
            self.service.post(self.hand.carry_out(effect))
        else:
            self.unanswered.append(effect)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    made = Agent(tmp_path)
    yield made
    made.service.stop()


def test_whoever_switches_is_told_what_both_hands_did_as_soon_as_it_is_known(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "HANDS_WITHIN_S", 60.0)
    asked = time.monotonic()
    answer = agent.service.set_active("client", "lte")
    kept = "client has lte as its active uplink; it is kept, and counts when gateway home connects"
    assert answer.done == (kept, "relay-1 moved 1 connection: Prefer is done")
    assert time.monotonic() - asked < 30


def test_an_agent_that_does_not_answer_in_time_is_named_and_its_answer_is_kept(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "HANDS_WITHIN_S", 0.05)
    agent.answers = False
    answer = agent.service.set_active("client", "lte")
    assert answer.done[1] == "relay-1 has not answered yet; `./bicast why client` tells what comes of it"
    for late in agent.unanswered:
        agent.tell(agent.hand.carry_out(late))
    newest = agent.service.decisions("client").decisions[0]
    assert [(hand.agent, hand.done) for hand in newest.hands] == [(None, False), ("relay-1", True)]


def test_an_agent_that_goes_meanwhile_is_waited_for_no_longer(agent: Agent) -> None:
    agent.answers = False
    threading.Timer(0.05, lambda: agent.service.post(AgentClosed(1, "it was ended"))).start()
    answer = agent.service.set_active("client", "lte")
    assert answer.done[1] == "relay-1 could not: its session ended before it answered (it was ended)"


def test_what_policies_decide_is_kept_without_anybody_asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "TICK_S", 0.02)
    agent = Agent(tmp_path)
    (connection,) = agent.hand.world
    connection.subflows[1].server.backup = True
    for _ in range(6):
        connection.download(100, loss=0.3)
        agent.tell(agent.hand.report())
    agent.service.stop()
    assert Store(str(tmp_path / "state.json")).load().decided == {"client": "lte"}
