# SPDX-License-Identifier: Apache-2.0
"""Measure transfers, first bytes, a crowd and many short connections, by each way in turns."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TypeVar

from experiments.relay.cost.plan import BATCH, DELAY_MS, DOWN, UP, WARM, Plan
from experiments.relay.cost.proxies import NAMES, PAIR, PATIENCE_S, Way, ask, standing, words_of
from experiments.relay.cost.road import FAR, NEAR
from lab.processes.usage import TICKS_A_SECOND, cpu_s, open_files, resident_mb, ticks
from lab.stage.failure import ExperimentFailed
from lab.stage.stage import Stage


@dataclass(frozen=True, slots=True)
class Moved:
    """One transfer."""

    way: str
    direction: str
    number: int
    whole: bool
    gbit: float
    seconds: float
    gateway_s: float  # processor time
    relay_s: float
    stalled: str

    @property
    def gbps(self) -> float:
        return self.gbit / self.seconds

    def __str__(self) -> str:
        if not self.whole:
            return f"{self.direction} {self.number}, {self.way}: BROKEN"
        spent = f"{self.gateway_s / self.gbit:.2f} and {self.relay_s / self.gbit:.2f} s of a processor a Gbit"
        return f"{self.direction} {self.number}, {self.way}: {self.gbps:.2f} Gbit/s, {spent}"


@dataclass(frozen=True, slots=True)
class Reached:
    """Some connections, one after the other: since each began."""

    way: str
    number: int
    connected_ms: tuple[float, ...]
    first_ms: tuple[float, ...]
    stalled: str

    def __str__(self) -> str:
        return f"first byte {self.number}, {self.way}: {', '.join(f'{each:.1f}' for each in self.first_ms)} ms"


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds."""

    resident_mb: float
    files: int


@dataclass(frozen=True, slots=True)
class Crowded:
    """Many connections open at once."""

    way: str
    asked: int
    answered: int  # again, when all were open
    gateway_mb: float  # more than before
    relay_mb: float
    unread: bool = False  # each asked for a transfer, and nobody reads it; else they are idle
    stalled: str = ""  # nothing here is a time

    def __str__(self) -> str:
        told = f"{self.answered} of {self.asked} open at once {'have what nobody reads' if self.unread else 'answer'}"
        return f"{told}, {self.way}: {self.gateway_mb:.0f} and {self.relay_mb:.0f} MB more"


@dataclass(frozen=True, slots=True)
class Passed:
    """Many short connections; what both ends hold after each step of them, and before."""

    way: str
    asked: int
    answered: int
    gateway: tuple[Held, ...]
    relay: tuple[Held, ...]
    stalled: str = ""

    def __str__(self) -> str:
        ends = (f"{end[0].resident_mb:.0f} -> {end[-1].resident_mb:.0f} MB" for end in (self.gateway, self.relay))
        return f"{self.answered} of {self.asked} short ones answered, {self.way}: {' and '.join(ends)}"


Run = Moved | Reached | Crowded | Passed

# Other load on the machine: links without an emulator report no stall.

# Of all processors' time: what shares the machine with more than this is not comparable with what does not.
MOST = 0.15
USER, NICE, SYSTEM, _IDLE, _WAITING, HARD, SOFT, STOLEN = range(1, 9)  # columns of /proc/stat


@dataclass(frozen=True, slots=True)
class Moment:
    """In ticks, since the machine began."""

    passed: int
    working: int  # for processes, or for another machine's
    interrupted: int
    ours: int  # of the processes of this world


def moment() -> Moment:
    """A world's /proc shows its own processes, and /proc/stat the whole machine."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()[: STOLEN + 1]
    columns = [0, *map(int, words[1:])]
    working = sum(columns[each] for each in (USER, NICE, SYSTEM, STOLEN))
    ours = sum(_spent(each) for each in Path("/proc").iterdir() if each.name.isdigit())
    return Moment(sum(columns), working, columns[HARD] + columns[SOFT], ours)


def _spent(process: Path) -> int:
    try:
        return sum(ticks(int(process.name)))
    except (FileNotFoundError, ProcessLookupError):  # it has ended since it was listed
        return 0


def disturbed(before: Moment, after: Moment) -> str:
    """Empty: not enough to count. What interrupts is charged to whom it interrupts: to ours for their part of all."""
    passed = max(1, after.passed - before.passed)
    interrupted = (after.interrupted - before.interrupted) / passed
    others = (after.working - before.working) - (after.ours - before.ours) * (1 - interrupted)
    if others <= MOST * passed:
        return ""
    return f"others had {100 * others / passed:.0f} % of the processors for {others / TICKS_A_SECOND:.1f} s"


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
