"""What else the machine did meanwhile: links without an emulator tell of no stall."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.processes.usage import TICKS_A_SECOND, ticks

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
