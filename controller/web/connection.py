"""One connection of the API, with an end to everybody's patience: uvicorn's own would hold half a request for ever.

A request must be whole soon after its first byte, and an answer must be taken. Where there are as many connections as
may be, the one that has longest had nothing to say gives its place to the newest, or, if all have asked, the one that
has longest left its answer untaken: a reader who asks is answered.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

log = logging.getLogger(__name__)

REQUEST_WITHIN_S = 5.0  # from its first byte; and to that byte, from the connection's begin or the answer before
ANSWER_WITHIN_S = 30.0  # from the whole request to the last byte that is taken; longer than the core may need
MOST_CONNECTIONS = 256
BURST_S = 60.0  # two losses of a place further apart are two bursts, and two lines in the log


def most_connections() -> int:
    """A quarter of the descriptors at the most: switches need theirs."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if descriptors < 0 else max(8, min(MOST_CONNECTIONS, descriptors // 4))


class Crowd(ServerState):
    """Who is connected: uvicorn's set of them, and how many they may be."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self._crowded_at = float("-inf")

    def make_room(self, newest: Connection) -> None:
        """Where nobody else waits or leaves an answer, the newest itself is the one to go."""
        present = [each for each in self.connections if isinstance(each, Connection)]
        if len(present) <= self.most:
            return
        if newest.since - self._crowded_at >= BURST_S:
            log.warning("the API has %d connections, as many as it may: for each new one another is closed", self.most)
        self._crowded_at = newest.since
        waiting = [each for each in present if each.is_idle and each is not newest]
        leaving = [each for each in present if each.leaves_its_answer]
        min(waiting or leaving or [newest], key=lambda each: each.since).drop()


class Connection(H11Protocol):
    server_state: Crowd

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.waits = True  # for a whole request; else for its answer to be made and taken
        self.since = 0.0
        self._begun = False  # something of the request has come
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        self.server_state.make_room(self)

    def data_received(self, data: bytes) -> None:
        if not self.waits and self._taken():
            self._wait()
        if self.waits and not self._begun:
            self._begun = True
            self._within(REQUEST_WITHIN_S)
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        if self._taken():
            self._wait()
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server's end: half a request is not waited for."""
        if self.waits:
            self.drop()
        else:
            super().shutdown()

    @property
    def is_idle(self) -> bool:
        return self.waits or self._taken()

    @property
    def leaves_its_answer(self) -> bool:
        return not self.waits and self.transport.get_write_buffer_size() > 0

    def drop(self) -> None:
        self.server_state.connections.discard(self)  # its descriptor is free in a moment
        self.transport.abort()

    def _taken(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete and not self.transport.get_write_buffer_size()

    def _look(self) -> None:
        if self.waits and self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self.waits = False
            self._within(ANSWER_WITHIN_S)

    def _wait(self) -> None:
        self.waits, self._begun = True, False
        self._within(REQUEST_WITHIN_S)

    def _within(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self.since = self.loop.time()
        self._deadline = self.loop.call_later(seconds, self.drop)
