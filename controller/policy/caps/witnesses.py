# SPDX-License-Identifier: Apache-2.0
"""Round trips of several terminals to the same place, over the same access point and uplinks, as a check on each other.

A single terminal may err or lie: the reports of two others are an upper bound for it. A connection that began behind
queued packets never saw the path empty: its shortest round trip is at most the others' current one. The path's length
is then the one that the others knew before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import chain

from controller.model.text import counted
from controller.policy.caps.flows import Pair
from controller.policy.caps.sharers import Sharer

OTHERS_FACTOR, OTHERS_MORE_US = 2, 40_000  # tolerance above others' round trips: other uplinks and worse air
WITNESSES = 2  # a single other witness may be the one in error
AS_LONG = 1.1  # tolerance for smoothed round trips of different moments


_Way = tuple[str, str]  # the uplinks, and the other end


@dataclass(slots=True)
class _Place:
    """The round trips of all witnesses to one place, each list sorted."""

    shortest: list[tuple[int, str]] = field(default_factory=list)
    now: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Believed:
    rtt_us: int | None
    doubt: str | None = None  # why the terminal's own figure is disbelieved; a beginning in a queue is no doubt


class RttWitnesses:
    def __init__(self, sharers: Collection[Sharer]) -> None:
        self._places: dict[_Way, _Place] = {}
        self._least: dict[str, dict[_Way, int]] = {}
        self._now: dict[str, dict[_Way, int]] = {}
        for sharer in sharers:
            _shorter(self._least.setdefault(sharer.witness, {}), _least(sharer))
            _shorter(self._now.setdefault(sharer.witness, {}), _now(sharer))
        for witness, least in self._least.items():
            for way, us in least.items():
                self._places.setdefault(way, _Place()).shortest.append((us, witness))
            for way, us in self._now[witness].items():
                self._places.setdefault(way, _Place()).now.append((us, witness))
        for place in self._places.values():
            place.shortest.sort()
            place.now.sort()

    def believed(self, sharer: Sharer, pair: Pair) -> Believed:
        own_us, way = sharer.min_rtt_us(pair), (sharer.uplinks_key, pair[1])
        place = self._places.get(way)
        if own_us is None or place is None:
            return Believed(own_us)
        others = _Others(place.shortest, (self._least[sharer.witness][way], sharer.witness))
        if len(others) < WITNESSES:
            return Believed(own_us)
        most_us = OTHERS_FACTOR * others.middle_us + OTHERS_MORE_US
        if own_us > most_us:
            return Believed(most_us, _doubt(pair, own_us, len(others), others.middle_us, most_us))
        return Believed(min(own_us, others.low_us) if self._began_in_queue(sharer, pair, own_us) else own_us)

    def _began_in_queue(self, sharer: Sharer, pair: Pair, own_us: int) -> bool:
        way = (sharer.uplinks_key, pair[1])
        own_now = self._now[sharer.witness].get(way)
        others = _Others(self._places[way].now, None if own_now is None else (own_now, sharer.witness))
        return len(others) >= WITNESSES and own_us <= AS_LONG * others.lower_middle_us


class _Others:
    """A sorted list without the terminal's own entry."""

    def __init__(self, every: list[tuple[int, str]], own: tuple[int, str] | None) -> None:
        self._every = every
        self._own_at = len(every) if own is None else bisect_left(every, own)

    def __len__(self) -> int:
        return len(self._every) - (self._own_at < len(self._every))

    def _at(self, number: int) -> int:
        return self._every[number if number < self._own_at else number + 1][0]

    @property
    def middle_us(self) -> int:
        """Return the upper median, so that one low error does not count."""
        return self._at(len(self) // 2)

    @property
    def lower_middle_us(self) -> int:
        """Return the lower median, so that one high error makes no queue."""
        return self._at((len(self) - 1) // 2)

    @property
    def low_us(self) -> int:
        """Return the round trip that a third of the others, and at least WITNESSES, have reached."""
        return self._at(max(WITNESSES, -(-len(self) // 3)) - 1)


def _shorter(known: dict[_Way, int], also: Mapping[_Way, int]) -> None:
    for way, us in also.items():
        known[way] = min(us, known.get(way, us))


def _least(sharer: Sharer) -> Mapping[_Way, int]:
    least: dict[_Way, int] = {}
    for (_, other), one in sharer.least.items():
        way = (sharer.uplinks_key, other)
        least[way] = min(one.both_us, least.get(way, one.both_us))
    return least


def _now(sharer: Sharer) -> Mapping[_Way, int]:
    now: dict[_Way, int] = {}
    for path in chain.from_iterable(live.paths for live in sharer.live):
        if path.srtt_us is not None and path.moves:
            way = (sharer.uplinks_key, path.pair[1])
            now[way] = min(path.srtt_us, now.get(way, path.srtt_us))
    return now


def _doubt(pair: Pair, own_us: int, others: int, middle_us: int, most_us: float) -> str:
    return (
        f"it reports at least {own_us / 1000:.1f} ms to {pair[1]}, which {counted(others, 'others')} reach in "
        f"{middle_us / 1000:.1f} ms: {most_us / 1000:.1f} ms are accepted"
    )
