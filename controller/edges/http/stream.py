# SPDX-License-Identifier: Apache-2.0
"""The state as server-sent events: the whole state first, then merge patches (RFC 7396).

One task reads the state while anybody follows, and encodes each change once for all. No queue exists: a follower that
missed a change gets the whole state, so a slow or sleeping browser holds nothing back.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool

from controller.protocol.requests import NotAnswered

MEDIA_TYPE = "text/event-stream"
PERIOD_S = 0.5
ALIVE_S = 5.0  # a comment is sent this long after the last event, so that the page notices a lost connection
MOST_FOLLOWERS = 128  # of 256 connections: the API stays reachable
ALIVE = b":\n\n"

State = Mapping[str, Any]


class TooMany(Exception):
    """The limit of followers is reached."""


class Stream:
    """Lives in the API's event loop."""

    def __init__(self, read: Callable[[], State]) -> None:
        """`read` runs in a worker thread and may raise NotAnswered."""
        self._read = read
        self._state: State = {}
        self._version = 0
        self._patch = b""  # from the version before
        self._whole: bytes | None = None  # of this version, once somebody has needed it
        self._changed = asyncio.Event()  # of this version: it is set when the next one is there
        self._followers = 0
        self._reader: asyncio.Task[None] | None = None

    def subscribe(self) -> AsyncIterator[bytes]:
        if self._followers >= MOST_FOLLOWERS:
            raise TooMany(f"{MOST_FOLLOWERS} pages follow this controller already; close one, and load this one again")
        return self._follow()

    async def _follow(self) -> AsyncIterator[bytes]:
        self._followers += 1
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._keep_reading())
        seen = 0
        try:
            while True:
                if seen < self._version:
                    event = self._patch if seen == self._version - 1 and seen else self._encoded()
                    seen = self._version
                    yield event
                    continue
                try:
                    await asyncio.wait_for(self._changed.wait(), ALIVE_S)
                except TimeoutError:
                    if self._reader.done():  # it failed, and the log says why: the next follower starts another
                        return
                    yield ALIVE
        finally:
            self._followers -= 1
            if not self._followers:
                self._reader.cancel()
                self._state, self._version = {}, 0  # the next follower waits for a new one

    async def _keep_reading(self) -> None:
        while True:
            try:
                state = await run_in_threadpool(self._read)
            except NotAnswered as error:
                state = {**self._state, "failure": str(error)}
            if state != self._state or not self._version:
                patch = json.dumps(difference(self._state, state))
                self._patch, self._whole = _event("patch", patch), None
                self._state, self._version = state, self._version + 1
                self._changed.set()
                self._changed = asyncio.Event()
            await asyncio.sleep(PERIOD_S)

    def _encoded(self) -> bytes:
        if self._whole is None:
            self._whole = _event("whole", json.dumps(self._state))
        return self._whole


def _event(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode()


def difference(before: State, after: State) -> dict[str, Any]:
    """Return the merge patch that makes `after` of `before`. Neither has a null, which means removal in a patch."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            if inner := difference(old, value):
                patch[key] = inner
        elif value != old or key not in before:
            patch[key] = value
    return patch
