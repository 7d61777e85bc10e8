"""What a call loses: 50 datagrams a second each way between two sites, by scene and mode.

./bicast experiment calls            each scene once
./bicast experiment calls --full     each three times

Wi-Fi is the active uplink until somebody leaves it. In each scene the call goes on over a clean Wi-Fi at first, so long
that who ends copies too soon has done so, and then for BAD_S while something befalls Wi-Fi. The scenes of one stage
follow each other, and Wi-Fi is healed in between. A stage is two sites, with an agent at each that lets one copy of
each packet pass, or with none; with an agent at the client, which has no TCP, or with none; with a budget at Wi-Fi, or
none; over Ethernet, or through tunnels.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import yaml

from experiments.laboratories.two_sites import ACTIVE, NATTED, TWIN, Ground, Laboratory, laboratory
from experiments.once.datagrams import THIN_PPS, both_ways
from lab.links.shape import Bursts
from lab.processes.agents import TERMINAL, agent
from lab.processes.controller import LOOK_EVERY_S, TREE
from lab.stage import isolate
from lab.stage.failure import ExperimentFailed
from lab.traffic.streaming import till

TIMES = 3  # each, of --full
CLEAN_S, BAD_S = 3.0, 10.0
SETTLED_S = 32.0  # clean, where an agent may tell: trouble sooner than KEPT_S lets the next copies end later
HEALED_S = 3.0  # between two scenes
RETURNS_WITHIN_S = 90.0  # a terminal that was moved to its default uplink, or a path alone
DELAYS = {"wifi_delay_ms": 10.0, "lte_delay_ms": 25.0}  # each way; and links that can lose in bursts
BURSTS = Bursts(1 / 100, 1 / 10)  # 9 % in the mean, ten packets at a time


@dataclass(frozen=True, slots=True)
class Scene:
    """What Wi-Fi loses, each way."""

    name: str
    up_percent: float = 0.0
    down_percent: float = 0.0
    bursts: Bursts | None = None


LOSING = Scene("4 % lost", 4.0, 4.0)
SCENES = (LOSING, Scene("bursts", bursts=BURSTS), Scene("dead downwards", 0.0, 100.0), Scene("black", 100.0, 100.0))


@dataclass(frozen=True, slots=True)
class StageOf:
    """Sites, and who is there."""

    name: str
    modes: tuple[str, ...]
    scenes: tuple[Scene, ...] = SCENES
    eliminated: bool = True
    with_agent: bool = False
    metered: bool = False
    tunnelled: bool = False  # the uplinks are then probed, and the scenes begin on one path


STAGES = (
    StageOf("an agent at the client, without TCP", ("auto",), with_agent=True),
    StageOf("no agent at the client", ("auto", "bicast", "single")),
    StageOf("no agent anywhere: TCP alone is copied", ("auto", "bicast", "single"), eliminated=False),
    StageOf("Wi-Fi has a budget; an agent at the client", ("auto",), (LOSING,), with_agent=True, metered=True),
    StageOf("tunnels, probed; auto is on one path at first", ("auto",), (LOSING,), with_agent=True, tunnelled=True),
)


@dataclass(frozen=True, slots=True)
class Call:
    stage: str
    scene: str
    mode: str
    sent: int  # both ways, while something befell Wi-Fi
    lost: int
    copies_after_s: float | None  # since it befell Wi-Fi; None: they were there, or never came
    active: str  # at the end

    @property
    def lost_percent(self) -> float:
        return 100 * self.lost / self.sent


def run(args: argparse.Namespace) -> int:
    isolate.enter()
    calls = []
    for call in carry_out(STAGES, TREE / "results" / "calls", TIMES if args.full else 1):
        calls.append(call)
        print(call, file=sys.stderr, flush=True)
    print(json.dumps([asdict(call) for call in calls], indent=2) if args.json else table(calls))
    return 0


def table(calls: list[Call]) -> str:
    head = (
        "| stage | scene | mode | n | lost (of all, worst) | copies after (median, worst) | at the end on |",
        "|---|---|---|---|---|---|---|",
    )
    kinds: dict[tuple[str, str, str], list[Call]] = {}
    for one in calls:
        kinds.setdefault((one.stage, one.scene, one.mode), []).append(one)
    return "\n".join((*head, *(_row(each) for each in kinds.values())))


def _row(calls: list[Call]) -> str:
    """Of one stage, scene and mode."""
    one, worst = calls[0], max(call.lost_percent for call in calls)
    lost = f"{100 * sum(call.lost for call in calls) / sum(call.sent for call in calls):.1f} %, {worst:.1f} %"
    after = [call.copies_after_s for call in calls if call.copies_after_s is not None]
    soon = f"{median(after):.1f} s, {max(after):.1f} s" if len(after) == len(calls) else "-"
    ends = ", ".join(sorted({call.active for call in calls}))
    return f"| {one.stage} | {one.scene} | {one.mode} | {len(calls)} | {lost} | {soon} | {ends} |"


def carry_out(stages: tuple[StageOf, ...], logs: Path, times: int) -> Iterator[Call]:
    for stage in stages:
        with ExitStack() as stack:
            lab = stack.enter_context(_raised(stage, logs, stack))
            if stage.with_agent:
                stack.enter_context(agent(lab.controller, lab.client, TERMINAL, "terminal"))
            for mode in stage.modes:
                lab.controller.client.set_mode("all", mode)
                for scene in (scene for scene in stage.scenes for _ in range(times)):
                    yield _called(lab, stage, scene, mode)


def _raised(stage: StageOf, logs: Path, stack: ExitStack) -> AbstractContextManager[Laboratory]:
    ground = NATTED if stage.tunnelled else TWIN
    if stage.metered:
        written = yaml.safe_load(ground.file.read_text(encoding="utf-8"))
        written["sites"]["home"]["uplinks"][ACTIVE]["budget_bytes_per_day"] = 100_000_000
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="calls-", dir=isolate.RUN_DIRECTORY)))
        file = place / ground.file.name
        file.write_text(yaml.safe_dump(written), encoding="utf-8")
        ground = Ground(file, ground.topo, ground.tunnelled)
    return laboratory(ground, logs, eliminated=stage.eliminated, slower=DELAYS)


def _called(lab: Laboratory, stage: StageOf, scene: Scene, mode: str) -> Call:
    _heal(lab)
    after_s = None
    with both_ways(lab, THIN_PPS) as both:
        if stage.tunnelled:
            _await_one_path(lab)
        till(time.monotonic() + (SETTLED_S if stage.with_agent else CLEAN_S))
        before = _acting(lab)
        began = time.monotonic()
        wifi = lab.net.uplink(ACTIVE)
        wifi.forward.set(loss_percent=scene.up_percent, bursts=scene.bursts)
        wifi.backward.set(loss_percent=scene.down_percent, bursts=scene.bursts)
        while time.monotonic() - began < BAD_S:
            if after_s is None and before == "single" and _acting(lab) == "bicast":
                after_s = time.monotonic() - began
            time.sleep(LOOK_EVERY_S)  # the API has no event to wait for
        active = str(lab.controller.client.get("terminals", TERMINAL)["active_uplink"])
    _heal(lab)
    lost = sum(len(way.lost) for way in both.ways.values())
    return Call(stage.name, scene.name, mode, round(2 * THIN_PPS * BAD_S), lost, after_s, active)


def _heal(lab: Laboratory) -> None:
    """Wi-Fi is whole, and the terminal is on it again."""
    wifi = lab.net.uplink(ACTIVE)
    for way in (wifi.forward, wifi.backward):
        way.set(loss_percent=0.0, bursts=None)
    till(time.monotonic() + HEALED_S)
    client = lab.controller.client
    if client.get("terminals", TERMINAL)["active_uplink"] != ACTIVE:
        client.set_active(TERMINAL, ACTIVE)
        client.set_active(TERMINAL, "auto")


def _acting(lab: Laboratory) -> str:
    return str(lab.controller.client.get("terminals", TERMINAL)["acting"])


def _await_one_path(lab: Laboratory) -> None:
    deadline = time.monotonic() + RETURNS_WITHIN_S
    while _acting(lab) != "single":
        if time.monotonic() > deadline:
            raise ExperimentFailed(f"{TERMINAL} is not on one path within {RETURNS_WITHIN_S:.0f} s of a clean Wi-Fi")
        time.sleep(LOOK_EVERY_S)  # the API has no event to wait for
