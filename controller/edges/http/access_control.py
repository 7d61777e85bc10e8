# SPDX-License-Identifier: Apache-2.0
"""The admission of requests, before every route, so that no route can forget the check.

Every request needs the API's token as a bearer token, even those of readers and monitors.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from hmac import compare_digest

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.edges.http.problems import problem

log = logging.getLogger(__name__)

LARGEST_BODY_BYTES = 16 << 10
WITHOUT_BODY = ("GET", "HEAD")
REFUSALS_EACH_S = 20  # with 401; later ones in that second get 429
QUIET_S = 60.0  # between log lines


class CannotServe(Exception):
    """The API cannot start. The sentence names the remedy."""


class TokenRefusals(Collector):
    """The count of refused requests. Written in the API's thread, read from any."""

    def __init__(self) -> None:
        self.count = 0
        self._logged_at = -QUIET_S
        self._logged = 0
        self._second, self._of_this_second = 0, 0

    def note(self, peer: str, now: float) -> bool:
        """Return whether this refusal exceeds the limit of this second."""
        self.count += 1
        if now - self._logged_at >= QUIET_S:
            more = self.count - self._logged - 1
            since = f", and {more} more since the last such message" if more else ""
            log.warning(
                "API: a request from %s without the token, or with a wrong one, was refused%s; the next message "
                "follows in %g s at the earliest",
                *(peer, since, QUIET_S),
            )
            self._logged_at, self._logged = now, self.count
        if int(now) != self._second:
            self._second, self._of_this_second = int(now), 0
        self._of_this_second += 1
        return self._of_this_second > REFUSALS_EACH_S

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(
            "bicast_api_refusals", "Requests without the API's token, or with a wrong one", value=self.count
        )


class Gate:
    """ASGI middleware for tokens, body sizes and types."""

    def __init__(self, app: ASGIApp, token: str, refusals: TokenRefusals) -> None:
        self.app = app
        self.token = token
        self.refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        if refusal := self._stranger(scope, headers):
            return await refusal(scope, receive, send)
        body = await _read(headers, receive)
        if body is None:
            detail = f"the body is larger than {LARGEST_BODY_BYTES} bytes; no request of this API needs more"
            return await problem(scope, 413, detail, headers={"Connection": "close"})(scope, receive, send)
        if refusal := self._wrong_type(scope, headers, body):
            return await refusal(scope, receive, send)
        if scope["method"] == "HEAD":  # answered like GET; the server omits the body (RFC 9110, 9.3.2)
            scope = {**scope, "method": "GET"}
        return await self.app(scope, _replay(body, receive), send)

    def _stranger(self, scope: Scope, headers: Headers) -> Response | None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and compare_digest(given.strip().encode("latin-1"), self.token.encode()):
            return None
        client = scope.get("client")
        if self.refusals.note(str(client[0]) if client else "somebody", time.monotonic()):
            detail = (
                f"more than {REFUSALS_EACH_S} requests per second arrive without the token; wait, then send the token"
            )
            return problem(scope, 429, detail, headers={"Retry-After": "1", "Connection": "close"})
        return problem(
            scope,
            401,
            "send `Authorization: Bearer TOKEN`, with the word in /run/bicast-controller/api-PORT.token on the "
            "controller's machine, or in the file that controller.api.token_file names",
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _wrong_type(self, scope: Scope, headers: Headers, body: bytes) -> Response | None:
        if not body or scope["method"] in WITHOUT_BODY:
            return None
        sent = headers.get("content-type", "")
        if sent.partition(";")[0].strip().lower() == "application/json":
            return None
        return problem(scope, 415, f"the body is of type {sent!r}; send application/json")


async def _read(headers: Headers, receive: Receive) -> bytes | None:
    """Return the body. None: it is too large, or the client has disconnected."""
    announced = headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > LARGEST_BODY_BYTES:
        return None
    body = bytearray()
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        body += event.get("body", b"")
        if len(body) > LARGEST_BODY_BYTES:
            return None
        if not event.get("more_body", False):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
