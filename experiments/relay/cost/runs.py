"""Transfers, first bytes, a crowd and many short connections, by each way in turns."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TypeVar

from bench.processes import cpu_s, open_files, resident_mb
from experiments import ExperimentFailed
from experiments.relay.cost.others import disturbed, moment
from experiments.relay.cost.plan import BATCH, DELAY_MS, DOWN, UP, WARM, Plan
from experiments.relay.cost.road import FAR, NEAR, RoadTopo
from experiments.relay.cost.ways import NAMES, PAIR, WEB, Way, raise_ways
from topologies.nodes import Machine
from topologies.stage import Stage, raised

TRAFFIC = Path(__file__).with_name("traffic.py")
PATIENCE_S = 600.0
ATTEMPTS = 3  # while others have the machine
SAME, SAME_FOR_S, SETTLES_WITHIN_S = 3, 0.5, 10.0  # looks at a process's open files
STEPS = 10  # in which short connections are made
# Those that have ended keep their ports for a minute: here there are as many as there can be, and used again.
PORTS = ("net.ipv4.ip_local_port_range=1024 65535", "net.ipv4.tcp_tw_reuse=1")


@dataclass(frozen=True, slots=True)
class Moved:
    """One transfer."""

    way: str
    direction: str
    number: int
    gbit: float
    seconds: float
    missing: int  # bytes
    gateway_s: float  # processor time
    relay_s: float
    stalled: str

    @property
    def gbps(self) -> float:
        return self.gbit / self.seconds

    def __str__(self) -> str:
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
    stalled: str = ""  # nothing here is a time

    def __str__(self) -> str:
        told = f"{self.answered} of {self.asked} open at once answer"
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
One = TypeVar("One", Moved, Reached)


def carry_out(plan: Plan, _logs: Path) -> Iterator[Run]:
    with road() as net, raise_ways(net) as ways:
        for number, direction, way in product(range(plan.rounds), (DOWN, UP), ways):
            yield from attempts(lambda w=way, d=direction, n=number: moved(net, w, d, n, plan.seconds))  # type: ignore[misc]
    with road(DELAY_MS) as net, raise_ways(net) as ways:
        for way in ways:
            ask(net, "first", way, 1)  # each knows the others' MACs
        for number, way in product(range(plan.batches), ways):
            yield from attempts(lambda w=way, n=number: reached(net, w, n))  # type: ignore[misc]
    for name in NAMES[1:]:
        with road() as net, raise_ways(net, (name,)) as ways:
            for way in ways:
                yield crowded(net, way, plan.crowd)
    with road() as net, raise_ways(net, (PAIR,)) as (pair,):
        yield passed(net, pair, plan.shorts)


def attempts(measure: Callable[[], One]) -> Iterator[One]:
    """All of them, until one counts."""
    for _ in range(ATTEMPTS):
        one = measure()
        yield one
        if not one.stalled:
            return


def moved(net: Stage, way: Way, direction: str, number: int, seconds: float) -> Moved:
    ends = (way.gateway, way.relay)
    before, began = [_cpu_s(pid) for pid in ends], moment()
    (told,) = ask(net, "bulk", way, direction, seconds)
    gateway_s, relay_s = (_cpu_s(pid) - spent for pid, spent in zip(ends, before, strict=True))
    stalled = disturbed(began, moment())
    gbit = told["bytes"] * 8e-9
    return Moved(way.name, direction, number, gbit, told["seconds"], int(told["missing"]), gateway_s, relay_s, stalled)


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


def crowded(net: Stage, way: Way, count: int) -> Crowded:
    assert way.gateway is not None and way.relay is not None
    ask(net, "short", way, WARM)
    before = [resident_mb(pid) for pid in (way.gateway, way.relay)]
    crowd = net.machine("terminal").popen(_words("crowd", way, count), stdin=subprocess.PIPE, stderr=None, text=True)
    assert crowd.stdout is not None
    crowd.stdout.readline()  # all that can be are open
    gateway_mb, relay_mb = (resident_mb(pid) - held for pid, held in zip((way.gateway, way.relay), before, strict=True))
    said, _ = crowd.communicate("\n", timeout=PATIENCE_S)
    return Crowded(way.name, count, json.loads(said)["answered"], gateway_mb, relay_mb)


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


def ask(net: Stage, what: str, way: Way, *words: object) -> list[dict[str, float]]:
    """The terminal's program, and what it found."""
    done = net.machine("terminal").run(*_words(what, way, *words), timeout_s=PATIENCE_S)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _words(what: str, way: Way, *words: object) -> list[str]:
    return [sys.executable, str(TRAFFIC), what, way.address, str(way.port), *map(str, words)]


@contextmanager
def road(delay_ms: float = 0.0) -> Iterator[Stage]:
    """With a server that answers."""
    with raised(RoadTopo(delay_ms=delay_ms)) as net:
        machines: list[Machine] = net.hosts
        for machine in machines:
            machine.run("sysctl", "--quiet", "--write", *PORTS)
        words = [sys.executable, str(TRAFFIC), "serve", str(WEB)]
        server = net.machine("server").popen(words, stdin=subprocess.PIPE, stderr=None, text=True)
        try:
            if server.stdout is None or server.stdout.readline() != "ready\n":
                raise ExperimentFailed("the server did not begin; its error is above")
            yield net
        finally:
            server.kill()
            server.communicate()
