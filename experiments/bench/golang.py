"""Benchmarks that are written in Go beside what they measure: run, and read."""

from __future__ import annotations

import re
from collections import defaultdict

from lab.processes.controller import TREE
from lab.stage.command import run

PROGRAM = TREE / "setup" / "go.sh"
REPEATS = 3
LINE = re.compile(r"^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$", re.MULTILINE)
MEASURED = re.compile(r"([0-9.]+) (\S+)")
PATIENCE_S = 600

# By the benchmark's name without its first word, and by unit: each repeat's value.
Read = dict[str, dict[str, list[float]]]


def benchmark(package: str, which: str, rounds: int) -> str:
    words = ("test", f"./agent/{package}", "-run", "^$", "-bench", which, "-benchtime", f"{rounds}x")
    return run(str(PROGRAM), "-C", str(TREE), *words, "-count", str(REPEATS), timeout_s=PATIENCE_S).stdout


def read(said: str) -> Read:
    found: Read = defaultdict(lambda: defaultdict(list))
    for name, values in LINE.findall(said):
        for value, unit in MEASURED.findall(values):
            found[name.replace("_", " ")][unit].append(float(value))
    return found
