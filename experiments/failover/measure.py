# SPDX-License-Identifier: Apache-2.0
"""A transfer whose active path dies while it runs, and how long its receiver then got nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.failover.plan import BLACK, UPLOAD, Task
from experiments.laboratories.two_paths import UPLINKS, Laboratory, laboratory
from lab.processes.agents import SETTINGS, TERMINAL, Agent, agent
from lab.processes.connections import await_none, await_paths, mptcp, paths
from lab.processes.controller import LOOK_EVERY_S, pin_mode
from lab.stage import isolate, ovs
from lab.stage.failure import ExperimentFailed
from lab.traffic.streaming import Streamed, streaming, till
from topologies.paper import SERVER

ACTIVE, OTHER = "wifi", "lte"
PORT = "gw-wifi"
STEADY_S = 1.5  # after a stream's beginning, in which its sender fills every queue
WATCHED_S = 3.0  # after the death
ATTEMPTS = 4  # while the machine stalls
WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Run:
    task: Task
    streamed: Streamed
    died: float  # the path, at this moment of time.monotonic()
    moved_bytes: int  # by the other path, after it
    no_progress_ms: int | None  # after so long without progress the agent was to leave the path, if one was armed
    stalled: str  # what the machine held up, and how long; empty: nothing

    @property
    def pause_s(self) -> float:
        return self.streamed.longest_pause_s(self.died, self.died + WATCHED_S)


def carry_out(tasks: Iterable[Task], logs: Path) -> Iterator[Run]:
    """Those in which the machine stalled are among them."""
    with laboratory(logs, SETTINGS) as lab:
        for task in tasks:
            for _ in range(ATTEMPTS):
                run = _run(lab, task)
                yield run
                if not run.stalled:
                    break


def _run(lab: Laboratory, task: Task) -> Run:
    _begin_anew(lab)
    with ExitStack() as undone:
        pin_mode(lab.controller.client, task.way.mode)
        if task.way.tuned:
            undone.enter_context(_tuned(lab))
        hand = undone.enter_context(_hand(lab, task)) if task.way.armed else None
        upload = task.direction == UPLOAD
        with streaming(lab.server, lab.client, SERVER, upload) as stream:
            stream.await_flowing()
            await_paths(lab.server, *UPLINKS.values())
            no_progress_ms = hand.await_armed(ACTIVE) if hand is not None else None
            if task.way.orphaned:
                lab.controller.kill()
                undone.callback(lab.controller.start)
            till(time.monotonic() + STEADY_S)
            lab.stalled()  # from here on it counts
            before = _by_other(lab)
            died = time.monotonic()
            undone.callback(_kill(lab, task.fault))
            till(died + WATCHED_S)
            moved = _by_other(lab) - before
            stalled = lab.stalled()
            streamed = stream.finish()
    return Run(task, streamed, died, moved, no_progress_ms, stalled)


def _by_other(lab: Laboratory) -> int:
    return sum(one.delivered_bytes for one in paths(lab.server) if one.client == UPLINKS[OTHER])


def _kill(lab: Laboratory, fault: str) -> Callable[[], None]:
    """The active path dies; what is returned brings it back."""
    if fault == BLACK:
        link = lab.net.uplink(ACTIVE)
        for way in (link.forward, link.backward):
            way.set(loss_percent=100)

        def bright() -> None:
            for way in (link.forward, link.backward):
                way.set(loss_percent=0)

        return bright
    gateway = lab.net.gateways[0]
    gateway.run("ip", "link", "set", "dev", PORT, "down")

    def up() -> None:
        gateway.run("ip", "link", "set", "dev", PORT, "up")
        ovs.vsctl("wait-until", "Interface", PORT, "link_state=up")

    return up


@contextmanager
def _tuned(lab: Laboratory) -> Iterator[None]:
    machines = {isolate.RUN_DIRECTORY / f"setup-{each.name}": each for each in (lab.client, lab.server)}
    for state, machine in machines.items():
        mptcp(machine, "setup", "--state", str(state))
    yield
    for state, machine in machines.items():
        await_none(machine)  # whose last path would go with an endpoint
        mptcp(machine, "setup", "--undo", "--state", str(state))


@contextmanager
def _hand(lab: Laboratory, task: Task) -> Iterator[Agent]:
    """At the end that sends: only there a path is seen to deliver nothing."""
    machine, role = (lab.client, "terminal") if task.direction == UPLOAD else (lab.server, "relay")
    with agent(lab.controller, machine, machine.name, role) as one:
        yield one


def _begin_anew(lab: Laboratory) -> None:
    """What agents moved, what policies decided and learned, and what anybody wished before is forgotten."""
    lab.forget()
    lab.restore_endpoints()
    client = lab.controller.client
    deadline = time.monotonic() + WITHIN_S
    while any(one["state"] == "here" for one in client.get("status")["agents"]):
        if time.monotonic() > deadline:
            raise ExperimentFailed(f"an agent that was ended is still here for the controller after {WITHIN_S:.0f} s")
        till(time.monotonic() + LOOK_EVERY_S)
    for uplink in (ACTIVE, "auto"):  # with no agent policies choose nothing: it stays there
        client.set_active(TERMINAL, uplink)
    lab.controller.await_steady()
