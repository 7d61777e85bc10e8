# SPDX-License-Identifier: Apache-2.0
"""Run each stage's calls and count losses."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

import yaml

from experiments.calls.plan import BAD_S, CLEAN_S, DELAYS, HEALED_S, SETTLED_S, Scene, StagePlan
from experiments.laboratories.two_sites import ACTIVE, NATTED, TWIN, Ground, Laboratory, laboratory
from experiments.once.datagrams import THIN_PPS, both_ways
from lab.processes.agents import TERMINAL, agent
from lab.processes.controller import LOOK_EVERY_S
from lab.stage import isolate
from lab.stage.failure import ExperimentFailed
from lab.traffic.streaming import till

RETURNS_WITHIN_S = 90.0  # for a moved terminal to return to its default uplink, or to a single path


@dataclass(frozen=True, slots=True)
class Call:
    stage: str
    scene: str
    mode: str
    sent: int  # on damaged Wi-Fi
    lost: int
    copies_after_s: float | None  # None: copies were there, or never came
    active: str  # uplink at the end

    @property
    def lost_percent(self) -> float:
        return 100 * self.lost / self.sent


def carry_out(stages: tuple[StagePlan, ...], logs: Path, times: int) -> Iterator[Call]:
    for stage in stages:
        with ExitStack() as stack:
            lab = stack.enter_context(_laboratory_of(stage, logs, stack))
            if stage.with_agent:
                stack.enter_context(agent(lab.controller, lab.client, TERMINAL, "terminal"))
            for mode in stage.modes:
                lab.controller.client.set_mode("all", mode)
                for scene in (scene for scene in stage.scenes for _ in range(times)):
                    yield _run_call(lab, stage, scene, mode)


def _laboratory_of(stage: StagePlan, logs: Path, stack: ExitStack) -> AbstractContextManager[Laboratory]:
    ground = NATTED if stage.tunnelled else TWIN
    if stage.metered:
        written = yaml.safe_load(ground.file.read_text(encoding="utf-8"))
        written["sites"]["home"]["uplinks"][ACTIVE]["budget"] = "100MB/day"
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="calls-", dir=isolate.RUN_DIRECTORY)))
        file = place / ground.file.name
        file.write_text(yaml.safe_dump(written), encoding="utf-8")
        ground = Ground(file, ground.topo, ground.tunnelled)
    return laboratory(ground, logs, eliminated=stage.eliminated, slower=DELAYS)


def _run_call(lab: Laboratory, stage: StagePlan, scene: Scene, mode: str) -> Call:
    _restore_wifi(lab)
    after_s = None
    with both_ways(lab, THIN_PPS) as both:
        if stage.tunnelled:
            _await_one_path(lab)
        till(time.monotonic() + (SETTLED_S if stage.with_agent else CLEAN_S))
        before = _acting_mode(lab)
        began = time.monotonic()
        wifi = lab.net.uplink(ACTIVE)
        wifi.forward.set(loss_percent=scene.up_percent, bursts=scene.bursts)
        wifi.backward.set(loss_percent=scene.down_percent, bursts=scene.bursts)
        while time.monotonic() - began < BAD_S:
            if after_s is None and before == "single" and _acting_mode(lab) == "bicast":
                after_s = time.monotonic() - began
            time.sleep(LOOK_EVERY_S)
        active = str(lab.controller.client.get("terminals", TERMINAL)["active_uplink"])
    _restore_wifi(lab)
    lost = sum(len(way.lost) for way in both.ways.values())
    return Call(stage.name, scene.name, mode, round(2 * THIN_PPS * BAD_S), lost, after_s, active)


def _restore_wifi(lab: Laboratory) -> None:
    wifi = lab.net.uplink(ACTIVE)
    for way in (wifi.forward, wifi.backward):
        way.set(loss_percent=0.0, bursts=None)
    till(time.monotonic() + HEALED_S)
    client = lab.controller.client
    if client.get("terminals", TERMINAL)["active_uplink"] != ACTIVE:
        client.set_active(TERMINAL, ACTIVE)
        client.set_active(TERMINAL, "auto")


def _acting_mode(lab: Laboratory) -> str:
    return str(lab.controller.client.get("terminals", TERMINAL)["acting"])


def _await_one_path(lab: Laboratory) -> None:
    deadline = time.monotonic() + RETURNS_WITHIN_S
    while _acting_mode(lab) != "single":
        if time.monotonic() > deadline:
            raise ExperimentFailed(f"{TERMINAL} still has copies after {RETURNS_WITHIN_S:.0f} s of clean Wi-Fi")
        time.sleep(LOOK_EVERY_S)
