"""Bytes that a link has carried, looked at all the time; and whether the machine had time for its links."""

from __future__ import annotations

import time
from collections.abc import Callable

from experiments.adaptive.seen import Carried
from experiments.laboratories.two_paths import UPLINKS
from lab.stage.stage import Stage
from lab.traffic.streaming import till

EVERY_S = 0.2
# One packet in a hundred that is late changes nothing of what comes in a phase; more, and the links were not ours.
HELD_SHARE = 0.01


class Look:
    def __init__(self, bytes_of: Callable[[], int]) -> None:
        self._bytes_of = bytes_of
        self._moments: list[float] = []
        self._sizes: list[int] = []

    def now(self) -> float:
        self._sizes.append(self._bytes_of())
        self._moments.append(time.monotonic())
        return self._moments[-1]

    def until(self, moment: float) -> None:
        while time.monotonic() < moment:
            till(min(moment, self.now() + EVERY_S))

    @property
    def carried(self) -> Carried:
        return Carried(self._moments, self._sizes)


def held(net: Stage) -> str:
    """Which links the machine has held up since this was last asked, and how long; empty: none that counts."""
    found = {name: net.uplink(name).lateness() for name in UPLINKS}
    late = {name: one for name, one in found.items() if one.stalls > HELD_SHARE * one.packets}
    return "; ".join(f"on {name} {one}" for name, one in late.items())
