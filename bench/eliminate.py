"""What eliminating copies leaves of a processor's pace, beside a program that gives the same verdicts without a look.

A veth's driver runs either; they take turns in one run (agent/eliminate/speed_test.go).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from bench.figures import Figure, at_least, middle
from experiments.running import TREE
from topologies.command import run

GO = TREE / "setup" / "go.sh"
REPEATS, ROUNDS = 3, 12
PROMISED, AT = 0.5, "64 bytes"
LINE = re.compile(r"BenchmarkSpeed/native/(\S+)/room_(\d+)\S*\s+\d+\s+(.*)")
MEASURED = re.compile(r"([0-9.]+) (\S+)")
TOLD = {"pair": "firsts and their copies by turns", "copy": "copies alone, which end"}


def measure() -> Iterator[Figure]:
    words = ("test", "./agent/eliminate", "-run", "^$", "-bench", "Speed/native", "-benchtime", f"{ROUNDS}x")
    said = run(str(GO), "-C", str(TREE), *words, "-count", str(REPEATS)).stdout
    yield from figures(said)


def figures(said: str) -> Iterator[Figure]:
    """Of what Go's benchmark said."""
    found: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for length, room, values in LINE.findall(said):
        for value, unit in MEASURED.findall(values):
            found[length.replace("_", " "), int(room)][unit].append(float(value))
    for (length, room), measured in sorted(found.items(), key=lambda each: (int(each[0][0].split()[0]), each[0][1])):
        for kind, what in TOLD.items():
            promise = at_least(PROMISED) if (kind, length) == ("pair", AT) else None
            head = f"packets of {length}, room for {room}, {what}"
            yield middle(f"{head}: of the pace without a look", measured[f"{kind}:ratio"], "", promise)
            yield middle("  packets a second", measured[f"{kind}:Mpps"], "million")
        yield middle("  memory in use", measured["KiB"], "KiB")
