# SPDX-License-Identifier: Apache-2.0
"""Switch a download's active path repeatedly."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from experiments.laboratories.two_paths import UPLINKS, Laboratory, laboratory
from experiments.switching.plan import QUEUES, Actor, Plan
from lab.processes.agents import SETTINGS, TERMINAL, AgentProcess, agent
from lab.processes.capture import captured
from lab.processes.connections import await_paths, mptcp, paths
from lab.processes.controller import LOOK_EVERY_S, pin_mode
from lab.stage import command
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.traffic.streaming import PORT, Streamed, streaming, till
from topologies.paper import SERVER

# A stream's capture

MP_PRIO = "5"  # RFC 8684, 3.3.8
SNAPPED_BYTES = 128  # link, IPv4 and TCP with all options
FIELDS = ("frame.time_epoch", "ip.src", "ip.dst", "ip.id", "tcp.len", "tcp.options.mptcp.subtype")


@dataclass(slots=True)
class StreamCapture:
    """Moments are time.monotonic(); paths are named by the client's address."""

    data: dict[str, list[float]] = field(default_factory=dict)
    priorities: list[float] = field(default_factory=list)  # the gateway's copies count once
    known: set[tuple[str, str]] = field(default_factory=set)  # sender and IP identification

    def first_data(self, path: str, since: float, until: float, silent_s: float) -> float | None:
        """Return when data first came on the path; None: nothing came, or earlier data was still arriving."""
        moments = self.data.get(path, [])
        if any(since - silent_s < moment <= since for moment in moments):
            return None
        return next((moment for moment in moments if since < moment < until), None)

    def last_data(self, path: str, since: float, until: float) -> float | None:
        return max((moment for moment in self.data.get(path, []) if since < moment < until), default=None)


def captured_stream(machine: Machine, file: Path, packets: str = "tcp") -> AbstractContextManager[None]:
    """`packets` is a tcpdump expression that precedes the stream's port."""
    return captured(machine, file, f"{packets} port {PORT}", SNAPPED_BYTES, "-i", "any", "-B", "8192")


def read(file: Path) -> StreamCapture:
    fields = [word for name in FIELDS for word in ("-e", name)]
    told = command.run("tshark", "-n", "-r", str(file), "-T", "fields", *fields, where=str(file)).stdout
    offset_s = time.time() - time.monotonic()
    seen = StreamCapture()
    for line in told.splitlines():
        _record(seen, line.split("\t"), offset_s)
    return seen


def _record(seen: StreamCapture, words: Sequence[str], offset_s: float) -> None:
    at, source, destination, identity, payload_bytes, subtypes = words
    moment = float(at) - offset_s
    if MP_PRIO in subtypes.split(",") and (source, identity) not in seen.known:
        seen.known.add((source, identity))
        seen.priorities.append(moment)
    if source == SERVER and int(payload_bytes or 0):
        seen.data.setdefault(destination, []).append(moment)


EVERY_S = 0.5
SILENT_S = 0.05  # earlier data has left such a silent path
DEFAULT_UPLINK = "wifi"
NEXT = (("wifi", "lte"), ("lte", "wifi"))
STEADY_S = 2.0  # a sender first fills every queue
ATTEMPTS = 4  # when the machine stalled
WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Switch:
    """Moments are time.monotonic(); None: not seen, or not distinguishable from earlier data."""

    old: str
    new: str
    ordered: float
    answered_after_s: float  # until the answer
    priority: float | None = None  # first MP_PRIO, at the client
    first_data: float | None = None  # at the client, new path
    last_data: float | None = None  # old path


@dataclass(frozen=True, slots=True)
class Run:
    actor: Actor
    queue: str
    number: int
    switches: tuple[Switch, ...]  # none for comparison
    streamed: Streamed
    since: float  # time.monotonic(), counting starts
    until: float
    priorities_received: int  # by the end that did not switch
    stalled: str  # what the machine delayed; "": nothing

    @property
    def bps(self) -> float:
        return self.streamed.bps(self.since, self.until)

    @property
    def pause_s(self) -> float:
        return self.streamed.longest_pause_s(self.since, self.until)


def carry_out(plan: Plan, logs: Path) -> Iterator[Run]:
    """Yield all runs, also stalled ones; the run without switches precedes the one with them."""
    for actor in plan.actors:
        with _running_stage(actor, logs) as stage:
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
    actor: Actor
    agent: AgentProcess | None
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
                captured_stream(lab.client, self.directory / "client.pcap"),
                captured_stream(lab.server, self.directory / "server.pcap", "tcp dst"),
            ):
                lab.stalled()  # forget earlier stalls
                since = time.monotonic()
                orders = [self._switch(since + at * EVERY_S, NEXT[at % 2]) for at in range(switches)]
                till(since + lasts_s)
                until = time.monotonic()
                stalled = lab.stalled()
                till(until + EVERY_S)  # let the last order act
            streamed = stream.finish()
        seen = read(self.directory / "client.pcap")
        told_to = read(self.directory / "server.pcap") if self.actor.by_client else seen
        told = tuple(_with_capture(one, seen) for one in orders)
        return Run(self.actor, queue, number, told, streamed, since, until, len(told_to.priorities), stalled)

    def _begin_on(self, uplink: str) -> None:
        if self.agent is not None:
            self.agent.await_seeing()
        deadline = time.monotonic() + WITHIN_S
        self._order(uplink)
        while {one.client for one in paths(self.lab.server) if not one.backup} != {UPLINKS[uplink]}:
            if time.monotonic() > deadline:
                raise ExperimentFailed(f"{uplink} is not the only active path {WITHIN_S:.0f} s after the order")
            till(time.monotonic() + LOOK_EVERY_S)
        till(time.monotonic() + STEADY_S)

    def _order(self, uplink: str) -> None:
        if self.actor.role is None:
            mptcp(self.lab.client, "switch", "--all", UPLINKS[uplink])
        else:
            self.lab.controller.client.set_active(TERMINAL, uplink)

    def _switch(self, due: float, way: tuple[str, str]) -> Switch:
        till(due)
        ordered = time.monotonic()
        self._order(way[1])
        return Switch(*way, ordered, time.monotonic() - ordered)


@contextmanager
def _running_stage(actor: Actor, logs: Path) -> Iterator[_Stage]:
    logs.mkdir(parents=True, exist_ok=True)
    with laboratory(logs, SETTINGS, lte_backup=actor.lte_backup) as lab:
        pin_mode(lab.controller.client, "bicast")
        if actor.role is None:
            yield _Stage(lab, actor, None, logs)
            return
        machine = lab.server if actor.role == "relay" else lab.client
        with agent(lab.controller, machine, machine.name, actor.role) as one:
            yield _Stage(lab, actor, one, logs)


def _with_capture(ordered: Switch, seen: StreamCapture) -> Switch:
    since, until = ordered.ordered, ordered.ordered + EVERY_S
    return replace(
        ordered,
        priority=next((moment for moment in seen.priorities if since < moment < until), None),
        first_data=seen.first_data(UPLINKS[ordered.new], since, until, SILENT_S),
        last_data=seen.last_data(UPLINKS[ordered.old], since, until),
    )
