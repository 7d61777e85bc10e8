"""The script and the budget, in laboratories of their own: nothing that one run has taught counts in the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

from controller.policy.copies.adaptive import KEPT_S
from experiments.adaptive import changes
from experiments.adaptive.budget import budgeted
from experiments.adaptive.looking import Look, held
from experiments.adaptive.plan import ADAPTIVE, NEVER, SCRIPT, Phase, Plan, Task
from experiments.adaptive.seen import Budgeted, Scripted
from experiments.laboratories.two_paths import UPLINKS
from experiments.laboratories.two_sites import ACTIVE, TWIN, Laboratory, laboratory
from lab.processes.agents import TERMINAL, agent
from lab.processes.connections import await_paths
from lab.processes.controller import LOOK_EVERY_S
from lab.stage.failure import ExperimentFailed
from lab.traffic.streaming import Stream, streaming, till
from topologies.paper import SERVER

DELAYS = {"wifi_delay_ms": 10.0, "lte_delay_ms": 25.0}  # each way
# More than one path brings by itself where it loses 5 %, and less than LTE carries. Most devices send by cubic.
CAMERA = ("4000000", "cubic")  # bits a second
STEADY_S = 2.0
KNOWN_WITHIN_S = 90.0
ATTEMPTS = 2  # while the machine stalls
Run: TypeAlias = Scripted | Budgeted
R = TypeVar("R", Scripted, Budgeted)


def carry_out(plan: Plan, logs: Path) -> Iterator[Run]:
    """Those in which the machine stalled are among them."""
    yield from _until_counted(partial(budgeted, plan.budget_bytes, plan.download_s, logs))
    for task in plan.tasks:
        yield from _until_counted(partial(scripted, task, logs))


def _until_counted(measure: Callable[[], R]) -> Iterator[R]:
    for _ in range(ATTEMPTS):
        run = measure()
        yield run
        if not run.stalled:
            break


def scripted(task: Task, logs: Path) -> Scripted:
    with _staged(task.mode, logs) as (lab, stream):
        _await_known(lab, task)
        held(lab.net)  # from here on it counts
        look = Look(lambda: _by_lte(lab))
        moments = list(_played(lab, look, task.phase_s))
        stalled = held(lab.net)
        changed = changes.read(lab.controller.client, TERMINAL)
        streamed = stream.finish()
    return Scripted(task, moments, streamed, look.carried, changed, stalled)


@contextmanager
def _staged(mode: str, logs: Path) -> Iterator[tuple[Laboratory, Stream]]:
    """The camera's picture goes up by Wi-Fi. That this is the active uplink is somebody's wish: else what is compared
    would be where policies have it in each mode, and not copies alone."""
    with laboratory(TWIN, logs, slower=DELAYS) as lab, agent(lab.controller, lab.client, TERMINAL, "terminal"):
        lab.pin(mode)
        with streaming(lab.server, lab.client, SERVER, upload=True, pace=CAMERA) as stream:
            stream.await_flowing()
            await_paths(lab.server, *UPLINKS.values())
            yield lab, stream


def _await_known(lab: Laboratory, task: Task) -> None:
    """Until who decides by himself has found Wi-Fi clean: what is not known yet has copies, and is not the script's.
    And so long ago that copies which begin after the first phase are no relapse: from such he recovers later."""
    if task.mode != ADAPTIVE:
        till(time.monotonic() + STEADY_S)
        return
    deadline = time.monotonic() + KNOWN_WITHIN_S
    while (copying := changes.copying(lab.controller.client, TERMINAL))["acting"] != NEVER:
        if time.monotonic() > deadline:
            raise ExperimentFailed(
                f"within {KNOWN_WITHIN_S:.0f} s of a clean Wi-Fi mode {task.mode} did not end copies: it says "
                f"'{copying['because']}'"
            )
        time.sleep(LOOK_EVERY_S)  # the API has no event to wait for
    till(time.monotonic() + max(0.0, KEPT_S + STEADY_S - task.phase_s))


def _played(lab: Laboratory, look: Look, phase_s: float) -> Iterator[float]:
    """When each phase began, and the last one ended."""
    began = time.monotonic()
    for number, phase in enumerate(SCRIPT, 1):
        yield look.now()
        _befalls(lab, phase)
        look.until(began + number * phase_s)
    yield look.now()


def _befalls(lab: Laboratory, phase: Phase) -> None:
    wifi = lab.net.uplink(ACTIVE)
    wifi.forward.set(loss_percent=phase.up_percent, bursts=phase.bursts)
    wifi.backward.set(loss_percent=phase.down_percent, bursts=phase.bursts)


def _by_lte(lab: Laboratory) -> int:
    return sum(way.out_bytes for way in lab.net.uplink("lte").counters())
