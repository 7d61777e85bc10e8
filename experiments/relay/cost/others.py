"""What else the machine did meanwhile: links without an emulator tell of no stall."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.processes import TICKS_A_SECOND, ticks

# Of all processors' time. Two transfers' halves that share the machine with more than this are not comparable.
MOST = 0.15
IDLE, WAITING = 3, 4  # columns of /proc/stat


@dataclass(frozen=True, slots=True)
class Moment:
    """In ticks, since the machine began."""

    passed: int
    busy: int
    ours: int


def moment() -> Moment:
    """A world's /proc shows its own processes, and /proc/stat the whole machine."""
    columns = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    ours = sum(_spent(each) for each in Path("/proc").iterdir() if each.name.isdigit())
    return Moment(sum(columns), sum(columns) - columns[IDLE] - columns[WAITING], ours)


def _spent(process: Path) -> int:
    try:
        return sum(ticks(int(process.name)))
    except (FileNotFoundError, ProcessLookupError):  # it has ended since it was listed
        return 0


def disturbed(before: Moment, after: Moment) -> str:
    """Empty: not enough to count."""
    passed = after.passed - before.passed
    others = (after.busy - before.busy) - (after.ours - before.ours)
    if others <= MOST * max(1, passed):
        return ""
    return f"others had {100 * others / passed:.0f} % of the processors for {others / TICKS_A_SECOND:.1f} s"
