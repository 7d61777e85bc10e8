# SPDX-License-Identifier: Apache-2.0
"""The page in `web/`: its files, and how a browser signs in and follows the state."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from controller.edges.http.access_control import SESSION
from controller.edges.http.problems import described
from controller.edges.http.sessions import (
    CODE_VALID_S,
    COOKIE,
    SESSION_VALID_S,
    Access,
    Caller,
    Session,
    Sessions,
)
from controller.edges.http.stream import MEDIA_TYPE, Stream, TooMany

FOLDER = Path(__file__).resolve().parents[3] / "web"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
# The page runs its own scripts alone, sends nothing elsewhere and stands in no frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # the ETag decides
}


@dataclass(frozen=True, slots=True)
class WebFile:
    content: bytes
    media_type: str
    etag: str


def web_files(folder: Path = FOLDER) -> dict[str, WebFile]:
    """Return the page's files by path on the server."""
    found = {}
    for each in sorted(folder.iterdir()):
        if each.suffix in TYPES:
            content = each.read_bytes()
            path = "/" if each.name == "index.html" else f"/{each.name}"
            found[path] = WebFile(content, TYPES[each.suffix], f'"{sha256(content).hexdigest()[:32]}"')
    return found


def is_public(files: Mapping[str, WebFile], method: str, path: str) -> bool:
    """Return whether a request needs no authentication: the page's files say nothing, and sign-in checks its code."""
    return (method in ("GET", "HEAD") and path in files) or (method == "POST" and path == SESSION)


class LinkRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    access: Access = Access.OPERATE


class SignIn(BaseModel):
    model_config = ConfigDict(extra="forbid")
    code: Annotated[str, Field(strict=True, max_length=100)]


@dataclass(frozen=True, slots=True)
class Link:
    """`code` goes behind `#` of the page's address: browsers do not send that part."""

    code: str
    until: float


@dataclass(frozen=True, slots=True)
class SignedOut:
    sessions: int  # that ended


@dataclass(frozen=True, slots=True)
class SignedIn:
    """`key` accompanies the cookie in each request, in the header X-Bicast-Key."""

    key: str
    session: Session


def add_page(app: FastAPI, files: Mapping[str, WebFile], sessions: Sessions, stream: Stream) -> None:
    for path, file in files.items():
        app.add_api_route(path, _sender(file), include_in_schema=False)
    wrong = {415: "not JSON", 422: "malformed"}
    none = described({409: "the caller has no session: it sent a token"})

    @app.post(
        "/api/v1/page/links",
        summary="Create a code with which one browser signs in to the page within 5 minutes",
        responses=described({403: "the caller may only read"}, wrong),
    )
    def link(wish: LinkRequest, request: Request) -> Link:
        caller, now = _caller(request), time.time()
        return Link(sessions.code(wish.access, caller.name, now), now + CODE_VALID_S)

    @app.post(
        SESSION,
        summary="Sign a browser in with a code; the answer sets a cookie",
        responses=described({403: "the code is unknown, used or expired"}, wrong),
        openapi_extra={"security": []},
    )
    def sign_in(wish: SignIn, request: Request, response: Response) -> SignedIn:
        opened = sessions.open(wish.code, time.time())
        if opened is None:
            detail = "this link was used before, or is older than 5 minutes; `./bicast page` prints a new one"
            raise HTTPException(HTTPStatus.FORBIDDEN, detail)
        session, own = opened
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, own.cookie, SESSION_VALID_S, httponly=True, samesite="strict", secure=secure)
        return SignedIn(own.key, session)

    @app.get(SESSION, summary="The session of this browser", responses=none)
    def session(request: Request) -> Session:
        return _session(request)

    @app.delete(SESSION, summary="Sign this browser out", responses=none)
    def sign_out(request: Request) -> SignedOut:
        own = _session(request)
        return SignedOut(sessions.close(lambda each: each == own))

    @app.get("/api/v1/page/sessions", summary="All browsers that are signed in")
    def all_sessions() -> tuple[Session, ...]:
        return sessions.list(time.time())

    @app.delete("/api/v1/page/sessions", summary="Sign all browsers out")
    def sign_all_out() -> SignedOut:
        return SignedOut(sessions.close(lambda each: True))

    @app.get(
        "/api/v1/page/stream",
        summary="The state as the page draws it, as server-sent events: `whole`, then `patch` (RFC 7396)",
        response_class=Response,
        responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}},
    )
    async def follow() -> StreamingResponse:
        try:
            return StreamingResponse(stream.subscribe(), media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})
        except TooMany as error:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None


def _sender(file: WebFile) -> Callable[[Request], Response]:
    def send(request: Request) -> Response:
        headers = {**HEADERS, "ETag": file.etag}
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(file.content, headers=headers, media_type=file.media_type)

    return send


def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


def _session(request: Request) -> Session:
    session = _caller(request).session
    if session is None:
        raise HTTPException(HTTPStatus.CONFLICT, "this request was sent with a token, so it belongs to no session")
    return session
