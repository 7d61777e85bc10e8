# SPDX-License-Identifier: Apache-2.0
"""Play the script and the budget, each in a laboratory of its own: nothing that one run teaches counts in the next."""

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
from experiments.adaptive.observations import Budgeted, Carried, Change, Scripted
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

# Decisions of mode auto, as the controller's API reports them.


def copying(client: Client, terminal: str) -> dict[str, Any]:
    """What its mode comes to just now, and why."""
    found: dict[str, Any] = client.get("terminals", terminal, "decisions")["copying"]
    return found


def read_changes(client: Client, terminal: str) -> list[Change]:
    """The oldest first."""
    lag = time.time() - time.monotonic()
    decisions = client.get("terminals", terminal, "decisions")["decisions"]
    found = [Change(one["at"] - lag, one["copies"], one["because"]) for one in decisions if one["copies"] is not None]
    return sorted(found, key=lambda change: change.at)


# Bytes that a link carried, sampled over time, and links that the machine stalled.

EVERY_S = 0.2
# One packet in a hundred that is late changes nothing of what comes in a phase; more, and the links were not ours.
HELD_SHARE = 0.01


class Look:
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
            till(min(moment, self.now() + EVERY_S))

    @property
    def carried(self) -> Carried:
        return Carried(self._moments, self._sizes)


def held(net: Stage) -> str:
    """Which links the machine has held up since this was last asked, and how long; empty: none that counts."""
    found = {name: net.uplink(name).lateness() for name in UPLINKS}
    late = {name: one for name, one in found.items() if one.stalls > HELD_SHARE * one.packets}
    return "; ".join(f"on {name} {one}" for name, one in late.items())


# A download whose acknowledgements ride LTE, too, in mode bicast, until the day's budget of LTE is used up.
#
# In the paper's laboratory with its plain router: only what goes up is copied. So what comes out of LTE's far end are
# copies, whoever sent them.

RATE_BPS = 50_000_000  # some 2,000 acknowledgements a second


def budgeted(budget_bytes: int, seconds: float, logs: Path) -> Budgeted:
    with _laboratory(budget_bytes, logs) as lab, agent(lab.controller, lab.client, TERMINAL, "terminal"):
        lab.controller.client.set_active(TERMINAL, "wifi")
        pin_mode(lab.controller.client, ALWAYS)
        look = Look(lambda: lab.net.uplink(BACKUP).counters()[0].out_bytes)
        with streaming(lab.server, lab.client, SERVER) as stream:
            stream.await_flowing()
            held(lab.net)  # from here on it counts
            began = look.now()
            look.until(began + seconds)
            ended = time.monotonic()
            stalled = held(lab.net)
            streamed = stream.finish()
        look.now()
        told = read_changes(lab.controller.client, TERMINAL)
    said = told[-1].because if told else "it was not used up"
    return Budgeted(budget_bytes, began, look.carried, streamed, ended, said, stalled)


@contextmanager
def _laboratory(budget_bytes: int, logs: Path) -> Iterator[TwoPaths]:
    written = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    written["sites"]["home"]["uplinks"][BACKUP]["budget_bytes_per_day"] = budget_bytes
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
        changed = read_changes(lab.controller.client, TERMINAL)
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
    while (found := copying(lab.controller.client, TERMINAL))["acting"] != NEVER:
        if time.monotonic() > deadline:
            raise ExperimentFailed(
                f"within {KNOWN_WITHIN_S:.0f} s of a clean Wi-Fi mode {task.mode} did not end copies: it says "
                f"'{found['because']}'"
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
