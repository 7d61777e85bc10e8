# SPDX-License-Identifier: Apache-2.0
"""Run Go benchmarks: elimination, window caps, and a tunnel under a flood of handshakes."""

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
PROMISED = {"64 bytes": at_least(0.5), "1400 bytes": at_least(0.45)}
SPEED = "Speed/native/"
ORDERS = {"pair": "firsts and their copies by turns", "copy": "copies alone, which end"}


def elimination() -> Iterator[Figure]:
    yield from elimination_figures(benchmark("elimination", SPEED.removesuffix("/"), ROUNDS))


def elimination_figures(output: str) -> Iterator[Figure]:
    for name, measured in sorted(read(output).items(), key=lambda each: sizes_of(each[0])):
        length, _, room = name.removeprefix(SPEED).partition("/room ")
        for kind, what in ORDERS.items():
            promise = PROMISED[length] if kind == "pair" else None
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


# A tunnel whose one end gets handshakes from strangers (agent/tunnel/flood_test.go)

FLOOD, FLOOD_S = "HandshakeFlood/", 10


def floods() -> Iterator[Figure]:
    yield from flood_figures(benchmark("tunnel", FLOOD.removesuffix("/"), FLOOD_S))


def flood_figures(output: str) -> Iterator[Figure]:
    for name, measured in read(output).items():
        yield middle(f"handshakes: {name.removeprefix(FLOOD)}", measured["sent/s"], "a second")
        yield middle("  processor time of both ends", measured["core-%"], "% of a core")
        yield middle("  pings lost in the tunnel", measured["lost-%"], "%", below(1))
