# SPDX-License-Identifier: Apache-2.0
"""Measure the routes in turns."""

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
from experiments.relay.cost.proxies import NAMES, PAIR, PATIENCE_S, TrafficRoute, ask, running_routes, words_of
from experiments.relay.cost.topology import FAR, NEAR
from lab.processes.usage import TICKS_A_SECOND, cpu_s, open_files, resident_mb, ticks
from lab.stage.failure import ExperimentFailed
from lab.stage.stage import Stage


@dataclass(frozen=True, slots=True)
class TransferRun:
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
        spent = f"{self.gateway_s / self.gbit:.2f} and {self.relay_s / self.gbit:.2f} s of processor time per Gbit"
        return f"{self.direction} {self.number}, {self.way}: {self.gbps:.2f} Gbit/s, {spent}"


@dataclass(frozen=True, slots=True)
class FirstByteRun:
    """Sequential connections, timed from their start."""

    way: str
    number: int
    connected_ms: tuple[float, ...]
    first_ms: tuple[float, ...]
    stalled: str

    def __str__(self) -> str:
        return f"first byte {self.number}, {self.way}: {', '.join(f'{each:.1f}' for each in self.first_ms)} ms"


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    resident_mb: float
    files: int


@dataclass(frozen=True, slots=True)
class CrowdRun:
    way: str
    requested: int
    answered: int  # connections that answered again once all were open
    gateway_mb: float  # growth of its memory
    relay_mb: float
    unread: bool = False  # transfers that nobody reads; else idle
    stalled: str = ""  # nothing here is timed

    def __str__(self) -> str:
        told = (
            f"{self.answered} of {self.requested} open at once {'have what nobody reads' if self.unread else 'answer'}"
        )
        return f"{told}, {self.way}: {self.gateway_mb:.0f} and {self.relay_mb:.0f} MB more"


@dataclass(frozen=True, slots=True)
class ShortRun:
    """Short connections, and what both ends hold before and after each step."""

    way: str
    requested: int
    answered: int
    gateway: tuple[ProcessUsage, ...]
    relay: tuple[ProcessUsage, ...]
    stalled: str = ""

    def __str__(self) -> str:
        ends = (f"{end[0].resident_mb:.0f} -> {end[-1].resident_mb:.0f} MB" for end in (self.gateway, self.relay))
        return f"{self.answered} of {self.requested} short ones answered, {self.way}: {' and '.join(ends)}"


Run = TransferRun | FirstByteRun | CrowdRun | ShortRun

# Other load: links without an emulator report no stall

# of all processor time; above it runs are not comparable
MAX_OTHER_LOAD = 0.15
USER, NICE, SYSTEM, _IDLE, _WAITING, HARD, SOFT, STOLEN = range(1, 9)  # columns of /proc/stat


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Processor ticks since boot."""

    run_short: int
    working: int  # processes, or stolen by another virtual machine
    interrupted: int
    ours: int  # this world's processes


def read_clock() -> ClockReading:
    """Read the clock: a world's /proc shows its own processes, and /proc/stat the whole machine."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()[: STOLEN + 1]
    columns = [0, *map(int, words[1:])]
    working = sum(columns[each] for each in (USER, NICE, SYSTEM, STOLEN))
    ours = sum(_process_ticks(each) for each in Path("/proc").iterdir() if each.name.isdigit())
    return ClockReading(sum(columns), working, columns[HARD] + columns[SOFT], ours)


def _process_ticks(process: Path) -> int:
    try:
        return sum(ticks(int(process.name)))
    except (FileNotFoundError, ProcessLookupError):  # ended meanwhile
        return 0


def other_load(before: ClockReading, after: ClockReading) -> str:
    """Return "" if other load is too little to count.

    Interrupts are charged to the interrupted: to our processes by their share.
    """
    run_short = max(1, after.run_short - before.run_short)
    interrupted = (after.interrupted - before.interrupted) / run_short
    others = (after.working - before.working) - (after.ours - before.ours) * (1 - interrupted)
    if others <= MAX_OTHER_LOAD * run_short:
        return ""
    return f"others had {100 * others / run_short:.0f} % of the processors for {others / TICKS_A_SECOND:.1f} s"


ATTEMPTS = 3  # under other load
STEPS = 10  # of short connections
EQUAL_READINGS, SAME_FOR_S, SETTLE_TIMEOUT_S = 3, 0.5, 10.0  # polls of open files

One = TypeVar("One", TransferRun, FirstByteRun)


def carry_out(plan: Plan, _logs: Path) -> Iterator[Run]:
    with running_routes() as (net, ways):
        for number, direction, way in product(range(plan.rounds), (DOWN, UP), ways):
            yield from _attempts(partial(run_transfer, net, way, direction, number, plan.seconds))
    with running_routes(DELAY_MS) as (net, ways):
        for number, way in product(range(plan.batches), ways):
            yield from _attempts(partial(run_first_bytes, net, way, number))
    for name in NAMES[1:]:
        with running_routes(names=(name,)) as (net, ways):
            for way in ways:
                yield run_crowd(net, way, plan.crowd)
        with running_routes(names=(name,)) as (net, ways):
            for way in ways:
                yield run_crowd(net, way, plan.unread, unread=True)
    with running_routes(names=(PAIR,)) as (net, (pair,)):
        yield run_short(net, pair, plan.shorts)


def _attempts(measure: Callable[[], One]) -> Iterator[One]:
    for _ in range(ATTEMPTS):
        one = measure()
        yield one
        if not one.stalled:
            return


def run_transfer(net: Stage, way: TrafficRoute, direction: str, number: int, seconds: float) -> TransferRun:
    ends = (way.gateway, way.relay)
    before, await_start = [_cpu_s(pid) for pid in ends], read_clock()
    output = ask(net, "bulk", way, direction, seconds)
    gateway_s, relay_s = (_cpu_s(pid) - spent for pid, spent in zip(ends, before, strict=True))
    stalled = other_load(await_start, read_clock())
    if not output:
        return TransferRun(way.name, direction, number, False, 0.0, 0.0, gateway_s, relay_s, stalled)
    (told,) = output
    whole, gbit = told["missing"] == 0, told["bytes"] * 8e-9
    return TransferRun(way.name, direction, number, whole, gbit, told["seconds"], gateway_s, relay_s, stalled)


def run_first_bytes(net: Stage, way: TrafficRoute, number: int) -> FirstByteRun:
    _lateness(net)  # forget earlier stalls
    told = ask(net, "first", way, BATCH)
    if len(told) < BATCH:
        raise ExperimentFailed(f"{BATCH - len(told)} of {BATCH} connections by {way.name} were not answered")
    connected, first = (tuple(each[name] for each in told) for name in ("connected_ms", "first_ms"))
    return FirstByteRun(way.name, number, connected, first, _lateness(net))


def _lateness(net: Stage) -> str:
    found = {name: net.uplink(name).lateness() for name in (NEAR, FAR)}
    return "; ".join(f"on {name} {late}" for name, late in found.items() if late.stalled)


def run_crowd(net: Stage, way: TrafficRoute, count: int, unread: bool = False) -> CrowdRun:
    assert way.gateway is not None and way.relay is not None
    ask(net, "short", way, WARM)
    before = [resident_mb(pid) for pid in (way.gateway, way.relay)]
    crowd = net.machine("terminal").popen(
        words_of("stall" if unread else "crowd", way, count), stdin=subprocess.PIPE, stderr=None, text=True
    )
    assert crowd.stdout is not None
    crowd.stdout.readline()  # all possible connections are open
    gateway_mb, relay_mb = (resident_mb(pid) - held for pid, held in zip((way.gateway, way.relay), before, strict=True))
    output, _ = crowd.communicate("\n", timeout=PATIENCE_S)
    return CrowdRun(way.name, count, json.loads(output)["answered"], gateway_mb, relay_mb, unread)


def run_short(net: Stage, way: TrafficRoute, count: int) -> ShortRun:
    assert way.gateway is not None and way.relay is not None
    ask(net, "short", way, WARM)
    held = [(_settled_usage(way.gateway), _settled_usage(way.relay))]
    answered = 0
    for _ in range(STEPS):
        (told,) = ask(net, "short", way, count // STEPS)
        answered += int(told["answered"])
        held.append((_settled_usage(way.gateway), _settled_usage(way.relay)))
    gateway, relay = zip(*held, strict=True)
    return ShortRun(way.name, count // STEPS * STEPS, answered, gateway, relay)


def _settled_usage(pid: int) -> ProcessUsage:
    """Return what the process holds once cleanup and preallocation are over; there is no event for either."""
    seen: list[int] = []
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while len(seen) < EQUAL_READINGS or len(set(seen[-EQUAL_READINGS:])) > 1:
        if time.monotonic() > deadline:
            break
        time.sleep(SAME_FOR_S / EQUAL_READINGS)
        seen.append(open_files(pid))
    return ProcessUsage(resident_mb(pid), seen[-1])


def _cpu_s(pid: int | None) -> float:
    return 0.0 if pid is None else cpu_s(pid)
