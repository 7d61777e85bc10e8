# SPDX-License-Identifier: Apache-2.0
"""Switch the active path of a download again and again, beside the same download left in peace."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from experiments.laboratories.two_paths import UPLINKS, Laboratory, laboratory
from experiments.switching.plan import QUEUES, Hand, Plan
from lab.processes.agents import SETTINGS, TERMINAL, Agent, agent
from lab.processes.capture import captured
from lab.processes.connections import await_paths, mptcp, paths
from lab.processes.controller import LOOK_EVERY_S, pin_mode
from lab.stage import command
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.traffic.streaming import PORT, Streamed, streaming, till
from topologies.paper import SERVER

# A capture at one end of a stream: when MP_PRIO left or came, and when data came by which path.

MP_PRIO = "5"  # RFC 8684, 3.3.8
SNAPPED_BYTES = 128  # link, IPv4 and TCP with all its options
FIELDS = ("frame.time_epoch", "ip.src", "ip.dst", "ip.id", "tcp.len", "tcp.options.mptcp.subtype")


@dataclass(slots=True)
class Seen:
    """Moments of time.monotonic(), in order; paths by the client's address."""

    data: dict[str, list[float]] = field(default_factory=dict)
    priorities: list[float] = field(default_factory=list)  # a gateway's copies of one are one
    known: set[tuple[str, str]] = field(default_factory=set)  # by sender and IP identification

    def first_data(self, path: str, since: float, until: float, silent_s: float) -> float | None:
        """None: what it carried before was still coming within `silent_s` before, or nothing came."""
        moments = self.data.get(path, [])
        if any(since - silent_s < moment <= since for moment in moments):
            return None
        return next((moment for moment in moments if since < moment < until), None)

    def last_data(self, path: str, since: float, until: float) -> float | None:
        return max((moment for moment in self.data.get(path, []) if since < moment < until), default=None)


def seen_by(machine: Machine, file: Path, packets: str = "tcp") -> AbstractContextManager[None]:
    """Into this file; `packets` is tcpdump's word for them, the stream's port to be put behind it."""
    return captured(machine, file, f"{packets} port {PORT}", SNAPPED_BYTES, "-i", "any", "-B", "8192")


def read(file: Path) -> Seen:
    fields = [word for name in FIELDS for word in ("-e", name)]
    told = command.run("tshark", "-n", "-r", str(file), "-T", "fields", *fields, where=str(file)).stdout
    offset_s = time.time() - time.monotonic()
    seen = Seen()
    for line in told.splitlines():
        _note(seen, line.split("\t"), offset_s)
    return seen


def _note(seen: Seen, words: Sequence[str], offset_s: float) -> None:
    at, source, destination, identity, payload_bytes, subtypes = words
    moment = float(at) - offset_s
    if MP_PRIO in subtypes.split(",") and (source, identity) not in seen.known:
        seen.known.add((source, identity))
        seen.priorities.append(moment)
    if source == SERVER and int(payload_bytes or 0):
        seen.data.setdefault(destination, []).append(moment)


EVERY_S = 0.5
SILENT_S = 0.05  # a path that has carried nothing for so long has nothing left of before
DEFAULT_UPLINK = "wifi"
NEXT = (("wifi", "lte"), ("lte", "wifi"))
STEADY_S = 2.0  # after a stream's beginning, in which its sender fills every queue
ATTEMPTS = 4  # while the machine stalls
WITHIN_S = 20.0


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
                seen_by(lab.client, self.directory / "client.pcap"),
                seen_by(lab.server, self.directory / "server.pcap", "tcp dst"),
            ):
                lab.stalled()  # from here on it counts
                since = time.monotonic()
                orders = [self._switch(since + at * EVERY_S, NEXT[at % 2]) for at in range(switches)]
                till(since + lasts_s)
                until = time.monotonic()
                stalled = lab.stalled()
                till(until + EVERY_S)  # what the last order has set going arrives
            streamed = stream.finish()
        seen = read(self.directory / "client.pcap")
        told_to = read(self.directory / "server.pcap") if self.hand.by_client else seen
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
