"""What waits for the core's thread: what presses, in order, before what any terminal can have a switch say endlessly.

A packet of a terminal's choice may be a word to the core. However many there are, a port that went down and a wish are
heard at once; of the packets only so many wait, those of each port in turn, and where there are too many, the port
that sends most loses its oldest.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Hashable

MOST_PACKETS = 1024  # that wait; a tenth of a second of the core's time

Job = Callable[[], None] | None


class Inbox:
    """Filled from any thread, without waiting; emptied by one."""

    def __init__(self) -> None:
        self._pressing: deque[Job] = deque()
        self._packets: dict[Hashable, deque[Job]] = {}  # by where they came from; the first is next
        self._waiting = 0  # packets
        self._changed = threading.Condition()  # never held while anything waits

    def put(self, job: Job) -> None:
        with self._changed:
            self._pressing.append(job)
            self._changed.notify()

    def put_packet(self, origin: Hashable, job: Job) -> None:
        with self._changed:
            if self._waiting >= MOST_PACKETS:
                self._oldest_of(max(self._packets, key=lambda each: len(self._packets[each])))
            self._packets.setdefault(origin, deque()).append(job)
            self._waiting += 1
            self._changed.notify()

    def get(self, timeout_s: float) -> tuple[Job, bool]:
        """A job, and whether it pressed. Raises queue.Empty."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._pressing or self._packets, timeout_s):
                raise queue.Empty
            if self._pressing:
                return self._pressing.popleft(), True
            return self._oldest_of(next(iter(self._packets))), False

    def presses(self) -> bool:
        return bool(self._pressing)

    def empty(self) -> bool:
        with self._changed:  # which takes a sender's packets out and puts the others back
            return not self._pressing and not self._packets

    def _oldest_of(self, origin: Hashable) -> Job:
        """Its others wait behind those of everybody else."""
        others = self._packets.pop(origin)
        job = others.popleft()
        if others:
            self._packets[origin] = others
        self._waiting -= 1
        return job
