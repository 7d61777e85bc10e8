# SPDX-License-Identifier: Apache-2.0
"""The tally of an uplink's lost and late packets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from controller.policy.paths.health import UplinkReading
from controller.protocol.reports import PathCopies

FEW = 3  # packets: fewer lost or late ones are chance
CLEAN_LOSS = 0.01  # highest share of lost packets on a clean path
CLEAN_LATE = 0.03  # the same for late packets
LATE_NS_LOG2 = 25  # 34 ms
FAR_BEHIND = 2  # powers of two above the median skew: a path with a constant delay is not late


class Source(StrEnum):
    SENDERS = "senders"
    COPIES = "copies"
    PROBES = "probes"
    TUNNEL = "tunnel"  # the counters of its port at both sites


@dataclass(frozen=True, slots=True)
class LossCounts:
    packets: int = 0
    lost: int = 0
    late: int = 0

    @property
    def loss(self) -> float:
        return self.lost / max(1, self.packets)

    @property
    def tail(self) -> float:
        return self.late / max(1, self.packets)

    @property
    def clean(self) -> bool:
        return self.loss <= CLEAN_LOSS and self.tail <= CLEAN_LATE

    @property
    def spoilt(self) -> bool:
        return not self.clean and max(self.lost, self.late) >= FEW

    def plus(self, other: LossCounts) -> LossCounts:
        return LossCounts(self.packets + other.packets, self.lost + other.lost, self.late + other.late)


NOTHING = LossCounts()


@dataclass(frozen=True, slots=True)
class Evidence:
    """The packets of one terminal's active uplink since the previous evidence."""

    source: Source
    lasted_s: float
    counts: LossCounts  # `lost` may be negative: packets in flight counted as lost in the previous report
    stalled_ms: int = 0  # time with data in flight and no acknowledgement


def total(all_counts: Iterable[LossCounts]) -> LossCounts:
    found = NOTHING
    for each in all_counts:
        found = found.plus(each)
    return found


def of_senders(reading: UplinkReading, late_segments: int, lasted_s: float) -> Evidence:
    """Return senders' evidence. The reading leaves out queued segments, so `late_segments` are added."""
    counts = LossCounts(reading.segments + late_segments, reading.retransmits, late_segments)
    return Evidence(Source.SENDERS, lasted_s, counts, reading.stalled_ms)


def of_copies(
    active: str, before: Mapping[str, PathCopies], after: Mapping[str, PathCopies], lasted_s: float
) -> Evidence | None:
    """Count packets that another uplink delivered and the active one did not.

    Packets without copies on the active uplink do not count. The caller ensures that no packet was sent by another
    uplink alone.
    """
    if active not in after or before.keys() != after.keys():
        return None
    new = {name: _since(before[name], path) for name, path in after.items()}
    if any(min(path.first, path.eliminated, path.late, *path.skew, 0) < 0 for path in new.values()):
        return None  # the counters restarted
    brought = {name: path.first + path.eliminated + path.late for name, path in new.items()}
    others = max((count for name, count in brought.items() if name != active), default=0)
    if not others:
        return None
    missing = sum(path.first for path in new.values()) - brought[active]
    return Evidence(Source.COPIES, lasted_s, LossCounts(others, min(missing, others), _late(new[active])))


def _since(before: PathCopies, after: PathCopies) -> PathCopies:
    skew = tuple(count - (before.skew[n] if n < len(before.skew) else 0) for n, count in enumerate(after.skew))
    return replace(
        after,
        first=after.first - before.first,
        eliminated=after.eliminated - before.eliminated,
        late=after.late - before.late,
        skew=skew,
    )


def _late(path: PathCopies) -> int:
    """Return the number of copies that came late enough to be noticed.

    A skew that most copies have is the path's length and does not count.
    """
    copies, middle = path.first, 0
    for n, count in enumerate(path.skew):
        if 2 * copies >= path.first + sum(path.skew):
            break
        copies, middle = copies + count, n
    return path.late + sum(path.skew[max(LATE_NS_LOG2, middle + FAR_BEHIND) :])
