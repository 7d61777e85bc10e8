"""Who may ask, and how much: stands before every route, so that no route can forget to look.

Off loopback a bearer token is asked for, of readers too. On loopback there is none unless one is configured, and a
browser is the stranger: a page of somebody else's may reach us under its own name once that name resolves to
127.0.0.1 (DNS rebinding), so the Host must be an address of ours.
"""

from __future__ import annotations

import re
from hmac import compare_digest
from ipaddress import ip_address
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.model import Settings
from controller.web.problems import problem

LARGEST_BODY_BYTES = 16 << 10
HOST = re.compile(r"(?:\[(?P<literal>[0-9A-Fa-f:.]+)\]|(?P<name>[0-9A-Za-z.-]+))(?::[0-9]{0,5})?")
WITHOUT_BODY = ("GET", "HEAD")


class CannotServe(Exception):
    """One sentence: why the API cannot be offered, and what to change."""


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(settings: Settings) -> str | None:
    if settings.token_file is None:
        if not is_loopback(settings.api.host):
            raise CannotServe(
                f"the API would listen to strangers at {settings.api}: "
                "set controller.api.token_file, or let it listen on 127.0.0.1"
            )
        return None
    try:
        token = Path(settings.token_file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CannotServe(f"the token of the API cannot be read from {settings.token_file}: {error}") from error
    if not token or not token.isprintable() or " " in token:
        raise CannotServe(
            f"{settings.token_file} must hold the API's token: one word, such as `openssl rand -hex 32` prints"
        )
    return token


class Gate:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app = app
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        if refusal := self._stranger(scope, headers):
            return await refusal(scope, receive, send)
        body = await _read(headers, receive)
        if body is None:
            detail = f"the body is larger than {LARGEST_BODY_BYTES} bytes; no request of this API needs that"
            return await problem(scope, 413, detail, headers={"Connection": "close"})(scope, receive, send)
        if refusal := self._wrong_type(scope, headers, body):
            return await refusal(scope, receive, send)
        if scope["method"] == "HEAD":  # what GET would be told; the server keeps the body to itself (RFC 9110, 9.3.2)
            scope = {**scope, "method": "GET"}
        return await self.app(scope, _replay(body, receive), send)

    def _stranger(self, scope: Scope, headers: Headers) -> Response | None:
        if self.token is None:
            host = headers.get("host", "")
            if is_loopback(_name(host)):
                return None
            return problem(scope, 421, f"{host!r} is not this controller; ask for it as 127.0.0.1, [::1] or localhost")
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and compare_digest(given.strip().encode("latin-1"), self.token.encode()):
            return None
        return problem(
            scope,
            401,
            "send `Authorization: Bearer TOKEN`, with the word in the file that controller.api.token_file names",
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _wrong_type(self, scope: Scope, headers: Headers, body: bytes) -> Response | None:
        if not body or scope["method"] in WITHOUT_BODY:
            return None
        sent = headers.get("content-type", "")
        if sent.partition(";")[0].strip().lower() == "application/json":
            return None
        return problem(scope, 415, f"the body is of type {sent!r}; send application/json")


def _name(host: str) -> str:
    """Of a Host as RFC 9110 section 7.2 has it; what is more than a name and a port is nobody's."""
    parts = HOST.fullmatch(host)
    return "" if parts is None else (parts["literal"] or parts["name"]).lower()


async def _read(headers: Headers, receive: Receive) -> bytes | None:
    """The whole body, or None as soon as it is too large or its sender is gone."""
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
