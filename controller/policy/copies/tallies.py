# SPDX-License-Identifier: Apache-2.0
"""The tally of an uplink's packets, lost and late: by senders, by the sites where copies arrive, and by probes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from controller.policy.paths.health import UplinkReading
from controller.protocol.reports import PathCopies

FEW = 3  # packets: fewer lost or late ones are bad luck
CLEAN_LOSS = 0.01
CLEAN_LATE = 0.03
LATE_NS_LOG2 = 25  # 34 ms
FAR_BEHIND = 2  # powers of two behind the middle copy: a path that is always slower by as much is not late


class Source(StrEnum):
    SENDERS = "senders"
    COPIES = "copies"
    PROBES = "probes"
    TUNNEL = "tunnel"  # its port's counters at both sites


@dataclass(frozen=True, slots=True)
class Tally:
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

    def plus(self, other: Tally) -> Tally:
        return Tally(self.packets + other.packets, self.lost + other.lost, self.late + other.late)


NOTHING = Tally()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of one terminal's active uplink, over the time since the piece before it."""

    source: Source
    lasted_s: float
    tally: Tally  # less than none may be lost: what was on its way at the report before counted there
    stalled_ms: int = 0  # with data in flight and no acknowledgement


def total(tallies: Iterable[Tally]) -> Tally:
    found = NOTHING
    for each in tallies:
        found = found.plus(each)
    return found


def of_senders(reading: UplinkReading, late_segments: int, lasted_s: float) -> Evidence:
    """`late_segments`, of subflows that are late, are not in the reading: it leaves out what stands in a queue."""
    tally = Tally(reading.segments + late_segments, reading.retransmits, late_segments)
    return Evidence(Source.SENDERS, lasted_s, tally, reading.stalled_ms)


def of_copies(
    active: str, before: Mapping[str, PathCopies], after: Mapping[str, PathCopies], lasted_s: float
) -> Evidence | None:
    """Of what another uplink brought, what the active one did not: packets of which there were no copies, and which
    came by the active one, count for nothing. The caller knows that none came alone by another."""
    if active not in after or before.keys() != after.keys():
        return None
    new = {name: _since(before[name], path) for name, path in after.items()}
    if any(min(path.first, path.eliminated, path.late, *path.skew, 0) < 0 for path in new.values()):
        return None  # it counts anew
    brought = {name: path.first + path.eliminated + path.late for name, path in new.items()}
    others = max((count for name, count in brought.items() if name != active), default=0)
    if not others:
        return None
    missing = sum(path.first for path in new.values()) - brought[active]
    return Evidence(Source.COPIES, lasted_s, Tally(others, min(missing, others), _late(new[active])))


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
    """Copies that came by it so long after the first that who waits for them feels it; those that always do are its
    length, and no tail."""
    copies, middle = path.first, 0
    for n, count in enumerate(path.skew):
        if 2 * copies >= path.first + sum(path.skew):
            break
        copies, middle = copies + count, n
    return path.late + sum(path.skew[max(LATE_NS_LOG2, middle + FAR_BEHIND) :])
