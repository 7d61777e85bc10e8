"""Who mostly receives. What such a terminal sends are acknowledgements: that some were lost slows down what comes, and
no sender tells of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from controller.policy.ways import Home, rides_none
from controller.reports import Reported, SubflowKey

OVER_S = 10.0
LITTLE_BYTES = 500_000  # in that time: it does not matter how fast so few come
SEGMENT_BYTES = 1400
PART = 0.1  # of what it receives: who sends as much would find out by that


class Downloads:
    def __init__(self) -> None:
        self._before: dict[int, dict[SubflowKey, int]] = {}  # by session: bytes received
        self._of_late: dict[str, deque[tuple[float, int, int]]] = {}  # by terminal: when, bytes received, segments sent

    def closed(self, session: int) -> None:
        self._before.pop(session, None)

    def told(self, event: Reported, homes: Mapping[str, Home], sent: Mapping[str, int], now: float) -> None:
        """A report of a terminal's own agent; `sent` is what it says of segments with data, by terminal."""
        before, seen, came = self._before.get(event.session), {}, dict.fromkeys(sent, 0)
        for subflow in (each for connection in event.connections for each in connection.subflows):
            home = homes.get(subflow.local_address)
            if home is None or rides_none(home, subflow.remote_address):
                continue
            key = subflow.key
            seen[key] = subflow.bytes_received
            if before is not None:
                new = subflow.bytes_received - before.get(key, 0)
                came[home.terminal.name] = came.get(home.terminal.name, 0) + max(0, new)
        self._before[event.session] = seen
        for name, received in came.items():
            of_late = self._of_late.setdefault(name, deque())
            of_late.append((now, received, sent.get(name, 0)))
            while not 0 <= now - of_late[0][0] <= OVER_S:
                of_late.popleft()

    def explained(self, terminal: str) -> int:
        """Packets that the terminal sent by its agent's last report: with data, or as acknowledgements."""
        of_late = self._of_late.get(terminal)
        if not of_late:
            return 0
        _, received, sent = of_late[-1]
        return sent + received // SEGMENT_BYTES

    def mostly(self, terminal: str, now: float) -> bool:
        of_late = [each for each in self._of_late.get(terminal, ()) if 0 <= now - each[0] <= OVER_S]
        received = sum(bytes_ for _, bytes_, _ in of_late)
        sent = sum(segments for _, _, segments in of_late)
        return received > LITTLE_BYTES and sent * SEGMENT_BYTES < PART * received
