# SPDX-License-Identifier: Apache-2.0
"""Kill a transfer's active path and measure its receiver's pause."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.failover.plan import BLACK, UPLOAD, Task
from experiments.laboratories.two_paths import UPLINKS, Laboratory, laboratory
from lab.processes.agents import SETTINGS, TERMINAL, AgentProcess, agent
from lab.processes.connections import await_none, await_paths, mptcp, paths
from lab.processes.controller import LOOK_EVERY_S, pin_mode
from lab.stage import isolate, ovs
from lab.stage.failure import ExperimentFailed
from lab.traffic.streaming import Streamed, streaming, till
from topologies.paper import SERVER

ACTIVE, OTHER = "wifi", "lte"
PORT = "gw-wifi"
STEADY_S = 1.5  # a sender first fills every queue
WATCHED_S = 3.0  # after the death
ATTEMPTS = 4  # when the machine stalled
WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Run:
    task: Task
    streamed: Streamed
    died: float  # time.monotonic() of the path's death
    moved_bytes: int  # over the other path, after the death
    no_progress_ms: int | None  # the armed agent's threshold; None: no agent
    stalled: str  # what the machine delayed; "": nothing

    @property
    def pause_s(self) -> float:
        return self.streamed.longest_pause_s(self.died, self.died + WATCHED_S)


def carry_out(tasks: Iterable[Task], logs: Path) -> Iterator[Run]:
    with laboratory(logs, SETTINGS) as lab:
        for task in tasks:
            for _ in range(ATTEMPTS):
                run = _run(lab, task)
                yield run
                if not run.stalled:
                    break


def _run(lab: Laboratory, task: Task) -> Run:
    _reset(lab)
    with ExitStack() as cleanup:
        pin_mode(lab.controller.client, task.way.mode)
        if task.way.tuned:
            cleanup.enter_context(_tuned(lab))
        armed_agent = cleanup.enter_context(_armed_agent(lab, task)) if task.way.armed else None
        upload = task.direction == UPLOAD
        with streaming(lab.server, lab.client, SERVER, upload) as stream:
            stream.await_flowing()
            await_paths(lab.server, *UPLINKS.values())
            no_progress_ms = armed_agent.await_armed(ACTIVE) if armed_agent is not None else None
            if task.way.controller_killed:
                lab.controller.kill()
                cleanup.callback(lab.controller.start)
            till(time.monotonic() + STEADY_S)
            lab.stalled()  # forget earlier stalls
            before = _other_path_bytes(lab)
            died = time.monotonic()
            cleanup.callback(_kill(lab, task.fault))
            till(died + WATCHED_S)
            moved = _other_path_bytes(lab) - before
            stalled = lab.stalled()
            streamed = stream.finish()
    return Run(task, streamed, died, moved, no_progress_ms, stalled)


def _other_path_bytes(lab: Laboratory) -> int:
    return sum(one.delivered_bytes for one in paths(lab.server) if one.client == UPLINKS[OTHER])


def _kill(lab: Laboratory, fault: str) -> Callable[[], None]:
    """Return the function that restores the path."""
    if fault == BLACK:
        link = lab.net.uplink(ACTIVE)
        for way in (link.forward, link.backward):
            way.set(loss_percent=100)

        def restore() -> None:
            for way in (link.forward, link.backward):
                way.set(loss_percent=0)

        return restore
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
        await_none(machine)  # removing an endpoint closes its path
        mptcp(machine, "setup", "--undo", "--state", str(state))


@contextmanager
def _armed_agent(lab: Laboratory, task: Task) -> Iterator[AgentProcess]:
    """Run the agent at the sender: only the sender sees that a path delivers nothing."""
    machine, role = (lab.client, "terminal") if task.direction == UPLOAD else (lab.server, "relay")
    with agent(lab.controller, machine, machine.name, role) as one:
        yield one


def _reset(lab: Laboratory) -> None:
    lab.forget()
    lab.restore_endpoints()
    client = lab.controller.client
    deadline = time.monotonic() + WITHIN_S
    while any(one["state"] == "here" for one in client.get("status")["agents"]):
        if time.monotonic() > deadline:
            raise ExperimentFailed(f"the controller still counts a stopped agent as connected after {WITHIN_S:.0f} s")
        till(time.monotonic() + LOOK_EVERY_S)
    for uplink in (ACTIVE, "auto"):  # without an agent no policy chooses, and it would stay
        client.set_active(TERMINAL, uplink)
    lab.controller.await_steady()
