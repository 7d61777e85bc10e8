# SPDX-License-Identifier: Apache-2.0
"""The order for caps to one agent, for the terminals of all its access points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.agents.order_kinds import LEASE_MS
from controller.features.caps.access_point import AccessPointState
from controller.policy.caps.flows import Pair
from controller.policy.caps.windows import Window
from controller.protocol.orders import Cap, Caps

MOST_CAPS, MOST_PORTS = 4096, 256  # per order


class CapsDraft:
    def __init__(self) -> None:
        self._windows: dict[str, Mapping[Pair, Window]] = {}  # by terminal
        self._ports: set[str] = set()
        self._sharers = 0
        self._block_bytes = 0

    def watch(self, ports: Iterable[str]) -> None:
        self._ports.update(ports)

    def share(self, state: AccessPointState) -> None:
        if state.ruling.active >= self._sharers:  # of several access points, the one with the most active terminals
            self._sharers, self._block_bytes = state.ruling.active, state.ruling.block_bytes

    def hold(self, terminal: str, windows: Mapping[Pair, Window]) -> None:
        self._windows[terminal] = windows

    def order(self) -> Caps:
        ports = sorted(self._ports)[:MOST_PORTS]
        return Caps(LEASE_MS, tuple(self._caps()), self._sharers, self._block_bytes, tuple(ports))

    def _caps(self) -> Iterable[Cap]:
        """Give each terminal an equal part of MOST_CAPS if there are too many."""
        sizes = [len(windows) for windows in self._windows.values() if windows]
        most = MOST_CAPS if sum(sizes) <= MOST_CAPS else MOST_CAPS // len(sizes)
        for terminal in sorted(self._windows):
            for (own, other), window in sorted(self._windows[terminal].items())[:most]:
                yield Cap(own, other, window.most, window.least, window.pace_bps)
