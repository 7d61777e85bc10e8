"""All that is measured, by each way in turns."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import TypeVar

from experiments.relay.cost.ends import PATIENCE_S, ask, standing, words_of
from experiments.relay.cost.others import disturbed, moment
from experiments.relay.cost.plan import BATCH, DELAY_MS, DOWN, UP, WARM, Plan
from experiments.relay.cost.road import FAR, NEAR
from experiments.relay.cost.runs import Crowded, Held, Moved, Passed, Reached, Run
from experiments.relay.cost.ways import NAMES, PAIR, Way
from lab.processes.usage import cpu_s, open_files, resident_mb
from lab.stage.failure import ExperimentFailed
from lab.stage.stage import Stage

ATTEMPTS = 3  # while others have the machine
STEPS = 10  # in which short connections are made
SAME, SAME_FOR_S, SETTLES_WITHIN_S = 3, 0.5, 10.0  # looks at a process's open files

One = TypeVar("One", Moved, Reached)


def carry_out(plan: Plan, _logs: Path) -> Iterator[Run]:
    with standing() as (net, ways):
        for number, direction, way in product(range(plan.rounds), (DOWN, UP), ways):
            yield from _attempts(partial(moved, net, way, direction, number, plan.seconds))
    with standing(DELAY_MS) as (net, ways):
        for number, way in product(range(plan.batches), ways):
            yield from _attempts(partial(reached, net, way, number))
    for name in NAMES[1:]:
        with standing(names=(name,)) as (net, ways):
            for way in ways:
                yield crowded(net, way, plan.crowd)
        with standing(names=(name,)) as (net, ways):
            for way in ways:
                yield crowded(net, way, plan.unread, unread=True)
    with standing(names=(PAIR,)) as (net, (pair,)):
        yield passed(net, pair, plan.shorts)


def _attempts(measure: Callable[[], One]) -> Iterator[One]:
    """All of them, until one counts."""
    for _ in range(ATTEMPTS):
        one = measure()
        yield one
        if not one.stalled:
            return


def moved(net: Stage, way: Way, direction: str, number: int, seconds: float) -> Moved:
    ends = (way.gateway, way.relay)
    before, began = [_cpu_s(pid) for pid in ends], moment()
    said = ask(net, "bulk", way, direction, seconds)
    gateway_s, relay_s = (_cpu_s(pid) - spent for pid, spent in zip(ends, before, strict=True))
    stalled = disturbed(began, moment())
    if not said:
        return Moved(way.name, direction, number, False, 0.0, 0.0, gateway_s, relay_s, stalled)
    (told,) = said
    whole, gbit = told["missing"] == 0, told["bytes"] * 8e-9
    return Moved(way.name, direction, number, whole, gbit, told["seconds"], gateway_s, relay_s, stalled)


def reached(net: Stage, way: Way, number: int) -> Reached:
    _late(net)  # from here on it counts
    told = ask(net, "first", way, BATCH)
    if len(told) < BATCH:
        raise ExperimentFailed(f"{BATCH - len(told)} of {BATCH} connections by {way.name} were not answered")
    connected, first = (tuple(each[name] for each in told) for name in ("connected_ms", "first_ms"))
    return Reached(way.name, number, connected, first, _late(net))


def _late(net: Stage) -> str:
    """Since this was last asked."""
    found = {name: net.uplink(name).lateness() for name in (NEAR, FAR)}
    return "; ".join(f"on {name} {late}" for name, late in found.items() if late.stalled)


def crowded(net: Stage, way: Way, count: int, unread: bool = False) -> Crowded:
    assert way.gateway is not None and way.relay is not None
    ask(net, "short", way, WARM)
    before = [resident_mb(pid) for pid in (way.gateway, way.relay)]
    crowd = net.machine("terminal").popen(
        words_of("stall" if unread else "crowd", way, count), stdin=subprocess.PIPE, stderr=None, text=True
    )
    assert crowd.stdout is not None
    crowd.stdout.readline()  # all that can be are open
    gateway_mb, relay_mb = (resident_mb(pid) - held for pid, held in zip((way.gateway, way.relay), before, strict=True))
    said, _ = crowd.communicate("\n", timeout=PATIENCE_S)
    return Crowded(way.name, count, json.loads(said)["answered"], gateway_mb, relay_mb, unread)


def passed(net: Stage, way: Way, count: int) -> Passed:
    assert way.gateway is not None and way.relay is not None
    ask(net, "short", way, WARM)
    held = [(_settled(way.gateway), _settled(way.relay))]
    answered = 0
    for _ in range(STEPS):
        (told,) = ask(net, "short", way, count // STEPS)
        answered += int(told["answered"])
        held.append((_settled(way.gateway), _settled(way.relay)))
    gateway, relay = zip(*held, strict=True)
    return Passed(way.name, count // STEPS * STEPS, answered, gateway, relay)


def _settled(pid: int) -> Held:
    """When what ended has been put away, and what is kept in advance is there again: nobody tells of either."""
    seen: list[int] = []
    deadline = time.monotonic() + SETTLES_WITHIN_S
    while len(seen) < SAME or len(set(seen[-SAME:])) > 1:
        if time.monotonic() > deadline:
            break
        time.sleep(SAME_FOR_S / SAME)
        seen.append(open_files(pid))
    return Held(resident_mb(pid), seen[-1])


def _cpu_s(pid: int | None) -> float:
    return 0.0 if pid is None else cpu_s(pid)
