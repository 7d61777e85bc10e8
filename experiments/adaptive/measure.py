# SPDX-License-Identifier: Apache-2.0
"""Run the script and the budget, each in a fresh laboratory."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import yaml

from controller.edges.http.client import Client
from controller.policy.copies.adaptive import KEPT_S
from experiments.adaptive.observations import BudgetRun, Carried, Change, ScriptRun
from experiments.adaptive.plan import ADAPTIVE, ALWAYS, NEVER, SCRIPT, Phase, Plan, Task
from experiments.laboratories.two_paths import BACKUP, FILE, UPLINKS
from experiments.laboratories.two_paths import Laboratory as TwoPaths
from experiments.laboratories.two_sites import ACTIVE, TWIN, Laboratory, laboratory
from lab.processes.agents import SETTINGS, TERMINAL, agent
from lab.processes.connections import await_paths
from lab.processes.controller import LOOK_EVERY_S, OPENFLOW, controlled, pin_mode
from lab.stage import isolate, ovs
from lab.stage.failure import ExperimentFailed
from lab.stage.stage import Stage, raised
from lab.stage.watch import watched
from lab.traffic.streaming import Stream, streaming, till
from topologies.paper import SERVER
from topologies.switching import SwitchingTopo


def copying(client: Client, terminal: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get("terminals", terminal, "decisions")["copying"]
    return found


def read_changes(client: Client, terminal: str) -> list[Change]:
    lag = time.time() - time.monotonic()
    decisions = client.get("terminals", terminal, "decisions")["decisions"]
    found = [Change(one["at"] - lag, one["copies"], one["reason"]) for one in decisions if one["copies"] is not None]
    return sorted(found, key=lambda change: change.at)


SAMPLE_INTERVAL_S = 0.2
# One late packet in a hundred does not change a phase's goodput.
MAX_LATE_SHARE = 0.01


class LinkSampler:
    def __init__(self, bytes_of: Callable[[], int]) -> None:
        self._bytes_of = bytes_of
        self._moments: list[float] = []
        self._sizes: list[int] = []

    def now(self) -> float:
        self._sizes.append(self._bytes_of())
        self._moments.append(time.monotonic())
        return self._moments[-1]

    def until(self, moment: float) -> None:
        while time.monotonic() < moment:
            till(min(moment, self.now() + SAMPLE_INTERVAL_S))

    @property
    def carried(self) -> Carried:
        return Carried(self._moments, self._sizes)


def stalled_links(net: Stage) -> str:
    """Return the links stalled since the previous call; "" if none counts."""
    found = {name: net.uplink(name).lateness() for name in UPLINKS}
    late = {name: one for name, one in found.items() if one.stalls > MAX_LATE_SHARE * one.packets}
    return "; ".join(f"on {name} {one}" for name, one in late.items())


# A download in mode bicast until the day's budget is used up
#
# The paper's router is plain, so only copies leave the far end of LTE.

RATE_BPS = 50_000_000  # about 2,000 acknowledgements/s


def run_budget(budget_bytes: int, seconds: float, logs: Path) -> BudgetRun:
    with _laboratory(budget_bytes, logs) as lab, agent(lab.controller, lab.client, TERMINAL, "terminal"):
        lab.controller.client.set_active(TERMINAL, "wifi")
        pin_mode(lab.controller.client, ALWAYS)
        look = LinkSampler(lambda: lab.net.uplink(BACKUP).counters()[0].out_bytes)
        with streaming(lab.server, lab.client, SERVER) as stream:
            stream.await_flowing()
            stalled_links(lab.net)  # forget earlier stalls
            began = look.now()
            look.until(began + seconds)
            ended = time.monotonic()
            stalled = stalled_links(lab.net)
            streamed = stream.finish()
        look.now()
        told = read_changes(lab.controller.client, TERMINAL)
    reason = told[-1].reason if told else "not used up"
    return BudgetRun(budget_bytes, began, look.carried, streamed, ended, reason, stalled)


@contextmanager
def _laboratory(budget_bytes: int, logs: Path) -> Iterator[TwoPaths]:
    written = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    written["sites"]["home"]["uplinks"][BACKUP]["budget"] = f"{budget_bytes / 1e6:g}MB/day"
    with tempfile.TemporaryDirectory(prefix="budget-", dir=isolate.RUN_DIRECTORY) as place:
        file = Path(place) / FILE.name
        file.write_text(yaml.safe_dump(written), encoding="utf-8")
        with (
            controlled(file, SETTINGS) as controller,
            raised(SwitchingTopo(rate_bps=RATE_BPS), controller=OPENFLOW) as net,
            watched(ovs.needed(), logs),
        ):
            controller.await_steady()
            yield TwoPaths(net, controller)


DELAYS = {"wifi_delay_ms": 10.0, "lte_delay_ms": 25.0}  # each way
# More than one path carries at 5 % loss, less than LTE carries. Most devices use cubic.
CAMERA = ("4000000", "cubic")  # bit/s
STEADY_S = 2.0
DECISION_TIMEOUT_S = 90.0
ATTEMPTS = 2  # when the machine stalled
Run: TypeAlias = ScriptRun | BudgetRun
R = TypeVar("R", ScriptRun, BudgetRun)


def carry_out(plan: Plan, logs: Path) -> Iterator[Run]:
    yield from _until_counted(partial(run_budget, plan.budget_bytes, plan.download_s, logs))
    for task in plan.tasks:
        yield from _until_counted(partial(run_script, task, logs))


def _until_counted(measure: Callable[[], R]) -> Iterator[R]:
    for _ in range(ATTEMPTS):
        run = measure()
        yield run
        if not run.stalled:
            break


def run_script(task: Task, logs: Path) -> ScriptRun:
    with _streaming_laboratory(task.mode, logs) as (lab, stream):
        _await_evidence(lab, task)
        stalled_links(lab.net)  # forget earlier stalls
        look = LinkSampler(lambda: _lte_bytes(lab))
        moments = list(_run_phases(lab, look, task.phase_s))
        stalled = stalled_links(lab.net)
        changed = read_changes(lab.controller.client, TERMINAL)
        streamed = stream.finish()
    return ScriptRun(task, moments, streamed, look.carried, changed, stalled)


@contextmanager
def _streaming_laboratory(mode: str, logs: Path) -> Iterator[tuple[Laboratory, Stream]]:
    with laboratory(TWIN, logs, slower=DELAYS) as lab, agent(lab.controller, lab.client, TERMINAL, "terminal"):
        lab.pin(mode)
        with streaming(lab.server, lab.client, SERVER, upload=True, pace=CAMERA) as stream:
            stream.await_flowing()
            await_paths(lab.server, *UPLINKS.values())
            yield lab, stream


def _await_evidence(lab: Laboratory, task: Task) -> None:
    """Wait until mode auto knows that Wi-Fi is clean: without evidence it copies.

    Wait also until a later start of copies is no relapse, from which auto recovers later.
    """
    if task.mode != ADAPTIVE:
        till(time.monotonic() + STEADY_S)
        return
    deadline = time.monotonic() + DECISION_TIMEOUT_S
    while (found := copying(lab.controller.client, TERMINAL))["acting"] != NEVER:
        if time.monotonic() > deadline:
            raise ExperimentFailed(
                f"mode {task.mode} still copies after {DECISION_TIMEOUT_S:.0f} s of clean Wi-Fi; its reason: "
                f"'{found['reason']}'"
            )
        time.sleep(LOOK_EVERY_S)
    till(time.monotonic() + max(0.0, KEPT_S + STEADY_S - task.phase_s))


def _run_phases(lab: Laboratory, look: LinkSampler, phase_s: float) -> Iterator[float]:
    """Yield each phase's beginning, and the last one's end."""
    began = time.monotonic()
    for number, phase in enumerate(SCRIPT, 1):
        yield look.now()
        _set_loss(lab, phase)
        look.until(began + number * phase_s)
    yield look.now()


def _set_loss(lab: Laboratory, phase: Phase) -> None:
    wifi = lab.net.uplink(ACTIVE)
    wifi.forward.set(loss_percent=phase.up_percent, bursts=phase.bursts)
    wifi.backward.set(loss_percent=phase.down_percent, bursts=phase.bursts)


def _lte_bytes(lab: Laboratory) -> int:
    return sum(way.out_bytes for way in lab.net.uplink("lte").counters())
