"""From any thread to the agents'. However many calls wait, the loop is woken once for all of them: each waking is a
system call, at which the caller hands the interpreter over and waits until it comes round again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

Call = Callable[[], object]


class Calls:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Call] = deque()
        self._woken = False

    def put(self, call: Call) -> None:
        """Where the loop has ended, nobody is left whom it would concern."""
        self._waiting.append(call)
        if self._woken:  # it has not looked yet
            return
        self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._make)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def _make(self) -> None:
        self._woken = False
        while self._waiting:
            self._loop.call_soon(self._waiting.popleft())
