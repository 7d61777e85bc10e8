"""What eliminating copies leaves of a processor's pace, beside a program that gives the same verdicts without a look.

A veth's driver runs either; they take turns in one run (agent/elimination/speed_test.go).
"""

from __future__ import annotations

from collections.abc import Iterator

from experiments.bench import golang
from lab.results.figures import Figure, at_least, middle

ROUNDS = 12
PROMISED, AT = 0.5, "64 bytes"
SPEED = "Speed/native/"
TOLD = {"pair": "firsts and their copies by turns", "copy": "copies alone, which end"}


def measure() -> Iterator[Figure]:
    yield from figures(golang.benchmark("elimination", SPEED.removesuffix("/"), ROUNDS))


def figures(said: str) -> Iterator[Figure]:
    """Of what Go's benchmark said."""
    for name, measured in sorted(golang.read(said).items(), key=lambda each: sizes_of(each[0])):
        length, _, room = name.removeprefix(SPEED).partition("/room ")
        for kind, what in TOLD.items():
            promise = at_least(PROMISED) if (kind, length) == ("pair", AT) else None
            head = f"packets of {length}, room for {room}, {what}"
            yield middle(f"{head}: of the pace without a look", measured[f"{kind}:ratio"], "", promise)
            yield middle("  packets a second", measured[f"{kind}:Mpps"], "million")
        yield middle("  memory in use", measured["KiB"], "KiB")


def sizes_of(name: str) -> tuple[int, int]:
    length, _, room = name.removeprefix(SPEED).partition(" bytes/room ")
    return int(length), int(room)
