"""What flows get through roads: as much as their senders hear to have arrived, over some seconds.

It counts where one uplink alone carries a terminal's packets, and went on doing so: of what rides several nobody knows
by which it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from controller.policy.ways import Home, Leaves, Way, rides_none
from controller.reports import Reported, Subflow, SubflowKey

WINDOW_S = 4.0  # acknowledgements come in bursts

WayOf = Callable[[Home], Way]


@dataclass(frozen=True, slots=True)
class Delivered:
    site: str  # of the terminal
    uplink: str
    sent: bool  # by the terminal; else to it
    bps: float


@dataclass(slots=True)
class _Window:
    begun_at: float
    bytes: int = 0


_Where = tuple[str, str, bool]  # site, uplink, sent


class Delivering:
    def __init__(self) -> None:
        self._before: dict[int, dict[SubflowKey, tuple[_Where, int]]] = {}  # by session: bytes of each subflow
        self._windows: dict[tuple[int, _Where], _Window] = {}
        self._told_at: dict[int, float] = {}

    def closed(self, session: int) -> None:
        self._before.pop(session, None)
        self._told_at.pop(session, None)
        self._windows = {at: window for at, window in self._windows.items() if at[0] != session}

    def told(
        self, event: Reported, at_terminal: bool, homes: Mapping[str, Home], way_of: WayOf, now: float
    ) -> Iterator[Delivered]:
        before, after = self._before.get(event.session, {}), dict[SubflowKey, tuple[_Where, int]]()
        for subflow in (each for connection in event.connections for each in connection.subflows):
            where = _where(subflow, at_terminal, homes, way_of)
            if where is None:
                continue
            key = subflow.key
            after[key] = (where, subflow.bytes_acked)
            rode, acked = before.get(key, (None, 0))
            counts = event.confirmed is None or key in event.confirmed
            if counts and rode == where and subflow.bytes_acked >= acked:
                begun_at = self._told_at.get(event.session, now)
                window = self._windows.setdefault((event.session, where), _Window(begun_at))
                window.bytes += subflow.bytes_acked - acked
        self._before[event.session], self._told_at[event.session] = after, now
        yield from self._over(event.session, now)

    def _over(self, session: int, now: float) -> Iterator[Delivered]:
        over = [at for at, window in self._windows.items() if at[0] == session and now - window.begun_at >= WINDOW_S]
        for at in over:
            window, (site, uplink, sent) = self._windows.pop(at), at[1]
            if window.bytes:
                yield Delivered(site, uplink, sent, 8 * window.bytes / (now - window.begun_at))


def _where(subflow: Subflow, at_terminal: bool, homes: Mapping[str, Home], way_of: WayOf) -> _Where | None:
    home = homes.get(subflow.local_address if at_terminal else subflow.remote_address)
    if home is None or (at_terminal and rides_none(home, subflow.remote_address)):
        return None
    way = way_of(home)
    if way.leaves is Leaves.BY_ACTIVE:
        return home.site.name, way.active, at_terminal
    if way.leaves is Leaves.BY_OWN and home.uplink is not None:
        return home.site.name, home.uplink, at_terminal
    return None
