# SPDX-License-Identifier: Apache-2.0
"""Run Go benchmarks: elimination and window caps."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from lab.processes.controller import TREE
from lab.results.figures import Figure, Promise, at_least, below, middle
from lab.stage.command import run

PROGRAM = TREE / "setup" / "go.sh"
REPEATS = 3
LINE = re.compile(r"^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$", re.MULTILINE)
MEASURED = re.compile(r"([0-9.]+) (\S+)")
PATIENCE_S = 600

# values of repeats, by benchmark (without its first word) and unit
Read = dict[str, dict[str, list[float]]]


def benchmark(package: str, which: str, rounds: int) -> str:
    words = ("test", f"./agent/{package}", "-run", "^$", "-bench", which, "-benchtime", f"{rounds}x")
    return run(str(PROGRAM), "-C", str(TREE), *words, "-count", str(REPEATS), timeout_s=PATIENCE_S).stdout


def read(output: str) -> Read:
    found: Read = defaultdict(lambda: defaultdict(list))
    for name, values in LINE.findall(output):
        for value, unit in MEASURED.findall(values):
            found[name.replace("_", " ")][unit].append(float(value))
    return found


# Elimination, relative to the same verdicts without a lookup
#
# A veth's driver runs both in turns (agent/elimination/speed_test.go).

ROUNDS = 12
PROMISED, AT = 0.5, "64 bytes"
SPEED = "Speed/native/"
ORDERS = {"pair": "firsts and their copies by turns", "copy": "copies alone, which end"}


def elimination() -> Iterator[Figure]:
    yield from elimination_figures(benchmark("elimination", SPEED.removesuffix("/"), ROUNDS))


def elimination_figures(output: str) -> Iterator[Figure]:
    for name, measured in sorted(read(output).items(), key=lambda each: sizes_of(each[0])):
        length, _, room = name.removeprefix(SPEED).partition("/room ")
        for kind, what in ORDERS.items():
            promise = at_least(PROMISED) if (kind, length) == ("pair", AT) else None
            head = f"packets of {length}, room for {room}, {what}"
            yield middle(f"{head}: of the pace without a look", measured[f"{kind}:ratio"], "", promise)
            yield middle("  packets a second", measured[f"{kind}:Mpps"], "million")
        yield middle("  memory in use", measured["KiB"], "KiB")


def sizes_of(name: str) -> tuple[int, int]:
    length, _, room = name.removeprefix(SPEED).partition(" bytes/room ")
    return int(length), int(room)


# Window caps: a gateway's packets, a terminal's processor
#
# One upload at full speed (agent/caps/receivewindow/bench_test.go); the kernel's account of a terminal
# (agent/caps/structops/cost_test.go).

GATEWAY, TERMINAL = "Goodput/", "Cost/"
PROMISES: dict[tuple[str, str], Promise] = {
    (f"{GATEWAY}with offloads", "median-ratio"): at_least(0.95),
    (f"{TERMINAL}an upload beside a cap", "SockOps-%"): below(1),
    (f"{TERMINAL}an upload under a cap", "SockOps-%"): below(1),
    (f"{TERMINAL}connections beside a cap", "SockOps-%"): below(1),
}
UNITS = {
    "median-ratio": ("goodput through the gateway's programs, beside none", ""),
    "with-Mbit/s": ("goodput", "Mbit/s"),
    "SockOps-%": ("a processor's time, to give sockets the congestion control", "%"),
    "StructOps-%": ("a processor's time, in the congestion control", "%"),
}


def windows() -> Iterator[Figure]:
    yield from window_figures(benchmark("caps/receivewindow", "Goodput", rounds=100))
    yield from window_figures(benchmark("caps/structops", "Cost", rounds=3))


def window_figures(output: str) -> Iterator[Figure]:
    for name, measured in read(output).items():
        case = name.removeprefix(GATEWAY).removeprefix(TERMINAL)
        for unit, (what, told) in UNITS.items():
            if unit in measured:
                yield middle(f"{case}: {what}", measured[unit], told, PROMISES.get((name, unit)))
