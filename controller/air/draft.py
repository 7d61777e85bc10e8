"""What one agent is to hold, put together from all the access points whose terminals it holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.air.holder import LEASE_MS
from controller.air.place import Place
from controller.policy.cap_windows import Window
from controller.policy.flows import Pair
from controller.reports import Cap, Caps

MOST_CAPS, MOST_PORTS = 4096, 256  # of one order


class Draft:
    def __init__(self) -> None:
        self._windows: dict[str, Mapping[Pair, Window]] = {}  # by terminal
        self._ports: set[str] = set()
        self._sharers = 0
        self._block_bytes = 0

    def watch(self, ports: Iterable[str]) -> None:
        self._ports.update(ports)

    def share(self, place: Place) -> None:
        if place.ruling.active >= self._sharers:  # of several, the one that is shared most
            self._sharers, self._block_bytes = place.ruling.active, place.ruling.block_bytes

    def hold(self, terminal: str, windows: Mapping[Pair, Window]) -> None:
        self._windows[terminal] = windows

    def order(self) -> Caps:
        ports = sorted(self._ports)[:MOST_PORTS]
        return Caps(LEASE_MS, tuple(self._caps()), self._sharers, self._block_bytes, tuple(ports))

    def _caps(self) -> Iterable[Cap]:
        """Where there are too many, each terminal has its part of the room: one with many takes nobody else's."""
        sizes = [len(windows) for windows in self._windows.values() if windows]
        most = MOST_CAPS if sum(sizes) <= MOST_CAPS else MOST_CAPS // len(sizes)
        for terminal in sorted(self._windows):
            for (own, other), window in sorted(self._windows[terminal].items())[:most]:
                yield Cap(own, other, window.most, window.least, window.pace_bps)
