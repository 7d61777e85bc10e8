"""A download during which the active path is switched again and again, and the same download left in peace."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from experiments.laboratories.two_paths import DEFAULT_QUEUE, SHORT_QUEUE, UPLINKS, Laboratory, laboratory
from experiments.switching import wire
from experiments.switching.wire import Seen
from lab.processes.agents import SETTINGS, TERMINAL, Agent, agent
from lab.processes.connections import await_paths, mptcp, paths
from lab.processes.controller import LOOK_EVERY_S, pin_mode
from lab.stage.failure import ExperimentFailed
from lab.traffic.streaming import Streamed, streaming, till
from topologies.paper import SERVER

EVERY_S = 0.5
SILENT_S = 0.05  # a path that has carried nothing for so long has nothing left of before
QUEUES = {"128 KiB": SHORT_QUEUE, "4 MiB": DEFAULT_QUEUE}  # what the sender may keep, by name
DEFAULT_UPLINK = "wifi"
NEXT = (("wifi", "lte"), ("lte", "wifi"))
STEADY_S = 2.0  # after a stream's beginning, in which its sender fills every queue
ATTEMPTS = 4  # while the machine stalls
WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Hand:
    """Who switches. `role` is of the agent that the controller orders, if it is the controller."""

    name: str
    role: str | None
    lte_backup: bool  # as the client begins: who serves cannot clear a client's flag

    @property
    def by_client(self) -> bool:
        return self.role != "relay"


HANDS = (
    Hand("bicast mptcp switch, at the client", None, True),
    Hand("bicast switch, agent at the client", "terminal", True),
    Hand("bicast switch, agent at the server", "relay", False),
)


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # its files in results/switching are named so
    switches: int
    rounds: int
    hands: tuple[Hand, ...] = HANDS
    queues: tuple[str, ...] = tuple(QUEUES)


QUICK = Plan("quick", 20, 1)
FULL = Plan("full", 20, 5)


@dataclass(frozen=True, slots=True)
class Switch:
    """Moments are of time.monotonic(); None: it was not seen, or could not be told from what came before."""

    old: str
    new: str
    ordered: float
    took_s: float  # until the order was answered
    priority: float | None = None  # the first MP_PRIO of it, at the client
    first_data: float | None = None  # at the client, by the new path
    last_data: float | None = None  # by the old one


@dataclass(frozen=True, slots=True)
class Run:
    hand: Hand
    queue: str
    number: int
    switches: tuple[Switch, ...]  # none in a run that was left in peace
    streamed: Streamed
    since: float  # of time.monotonic(): what is counted begins
    until: float
    priorities_received: int  # by the end that did not switch
    stalled: str  # what the machine held up, and how long; empty: nothing

    @property
    def bps(self) -> float:
        return self.streamed.bps(self.since, self.until)

    @property
    def pause_s(self) -> float:
        return self.streamed.longest_pause_s(self.since, self.until)


def carry_out(plan: Plan, logs: Path) -> Iterator[Run]:
    """For each run the one that was left in peace comes first. Those in which the machine stalled are among them."""
    for hand in plan.hands:
        with _staged(hand, logs) as stage:
            for number, queue in product(range(1, plan.rounds + 1), plan.queues):
                for switches in (0, plan.switches):
                    for _ in range(ATTEMPTS):
                        run = stage.run(queue, number, switches, plan.switches * EVERY_S)
                        yield run
                        if not run.stalled:
                            break


@dataclass(frozen=True, slots=True)
class _Stage:
    lab: Laboratory
    hand: Hand
    agent: Agent | None
    directory: Path

    def run(self, queue: str, number: int, switches: int, lasts_s: float) -> Run:
        lab = self.lab
        lab.queue(QUEUES[queue])
        lab.forget()
        with streaming(lab.server, lab.client, SERVER) as stream:
            stream.await_flowing()
            await_paths(lab.server, *UPLINKS.values())
            self._begin_on(DEFAULT_UPLINK)
            with (
                wire.seen_by(lab.client, self.directory / "client.pcap"),
                wire.seen_by(lab.server, self.directory / "server.pcap", "tcp dst"),
            ):
                lab.stalled()  # from here on it counts
                since = time.monotonic()
                orders = [self._switch(since + at * EVERY_S, NEXT[at % 2]) for at in range(switches)]
                till(since + lasts_s)
                until = time.monotonic()
                stalled = lab.stalled()
                till(until + EVERY_S)  # what the last order has set going arrives
            streamed = stream.finish()
        seen = wire.read(self.directory / "client.pcap")
        told_to = wire.read(self.directory / "server.pcap") if self.hand.by_client else seen
        told = tuple(_told(one, seen) for one in orders)
        return Run(self.hand, queue, number, told, streamed, since, until, len(told_to.priorities), stalled)

    def _begin_on(self, uplink: str) -> None:
        """The stream by this path alone, and steadily."""
        if self.agent is not None:
            self.agent.await_seeing()
        deadline = time.monotonic() + WITHIN_S
        self._order(uplink)
        while {one.client for one in paths(self.lab.server) if not one.backup} != {UPLINKS[uplink]}:
            if time.monotonic() > deadline:
                raise ExperimentFailed(f"{uplink} is not alone active {WITHIN_S:.0f} s after it was ordered")
            till(time.monotonic() + LOOK_EVERY_S)
        till(time.monotonic() + STEADY_S)

    def _order(self, uplink: str) -> None:
        if self.hand.role is None:
            mptcp(self.lab.client, "switch", "--all", UPLINKS[uplink])
        else:
            self.lab.controller.client.set_active(TERMINAL, uplink)

    def _switch(self, due: float, way: tuple[str, str]) -> Switch:
        till(due)
        ordered = time.monotonic()
        self._order(way[1])
        return Switch(*way, ordered, time.monotonic() - ordered)


@contextmanager
def _staged(hand: Hand, logs: Path) -> Iterator[_Stage]:
    logs.mkdir(parents=True, exist_ok=True)
    with laboratory(logs, SETTINGS, lte_backup=hand.lte_backup) as lab:
        pin_mode(lab.controller.client, "bicast")
        if hand.role is None:
            yield _Stage(lab, hand, None, logs)
            return
        machine = lab.server if hand.role == "relay" else lab.client
        with agent(lab.controller, machine, machine.name, hand.role) as one:
            yield _Stage(lab, hand, one, logs)


def _told(ordered: Switch, seen: Seen) -> Switch:
    """With what the wire says of it, until the next one."""
    since, until = ordered.ordered, ordered.ordered + EVERY_S
    return replace(
        ordered,
        priority=next((moment for moment in seen.priorities if since < moment < until), None),
        first_data=seen.first_data(UPLINKS[ordered.new], since, until, SILENT_S),
        last_data=seen.last_data(UPLINKS[ordered.old], since, until),
    )
