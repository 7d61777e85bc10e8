# SPDX-License-Identifier: Apache-2.0
"""Requests without the token, floods and other formats are refused."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx
import pytest

from controller.edges.http import access_control
from controller.edges.http.access_control import LARGEST_BODY_BYTES
from controller.edges.http.server import Serving
from tests.controller.edges.http.conftest import problem
from tests.controller.edges.http.fake_core import HEAD, START, TOKEN, FakeCore
from tests.controller.edges.http.fake_enroller import PHONE, FakeEnroller
from tests.system.evidence import PATIENCE_S

OFF = {"mode": "off"}


@pytest.fixture
def bare_client(serving: Serving) -> Iterator[httpx.Client]:
    """Yield a client that sends no token unless the test adds one."""
    with httpx.Client(base_url=f"http://{serving.endpoint}", trust_env=False, timeout=PATIENCE_S) as client:
        yield client


@pytest.mark.parametrize(
    "given", [None, "Bearer", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer \xe9"]
)
def test_request_without_the_token_reads_and_changes_nothing(
    bare_client: httpx.Client, fake_core: FakeCore, given: str | None
) -> None:
    headers = [] if given is None else [(b"Authorization", given.encode("latin-1"))]
    for path in ("/api/v1/terminals", "/metrics", "/healthz", "/api/v1/openapi.json", "/nothing"):
        answer = bare_client.get(path, headers=headers)
        problem(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"
    problem(bare_client.put("/api/v1/mode", json=OFF, headers=headers), 401)
    assert fake_core.snapshot is START


def test_request_with_the_token_is_answered_under_any_host(bare_client: httpx.Client) -> None:
    bare_client.headers = httpx.Headers({"Authorization": f"bearer {TOKEN}", "Host": "gateway.example"})
    assert bare_client.get("/metrics").status_code == 200
    assert bare_client.put("/api/v1/mode", json=OFF).json()["changed"]
    assert bare_client.get("/api/v1/openapi.json").json()["security"] == [{"token": []}]


def test_requests_without_the_token_are_limited_in_rate(
    bare_client: httpx.Client, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_control, "REFUSALS_EACH_S", 0)
    before = refusals(http)
    answer = bare_client.get("/metrics")
    problem(answer, 429)
    assert answer.headers["retry-after"] == "1"
    assert refusals(http) == before + 1


def refusals(http: httpx.Client) -> float:
    lines = http.get("/metrics").text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("bicast_api_refusals_total ")))


def test_refusals_beyond_the_rate_are_logged_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_control, "REFUSALS_EACH_S", 2)
    some = access_control.TokenRefusals()
    assert [some.note("192.0.2.1", now) for now in (5.0, 5.1, 5.2, 6.0)] == [False, False, True, False]


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "garbage", ""]
)
def test_body_that_is_not_json_is_refused(http: httpx.Client, fake_core: FakeCore, kind: str) -> None:
    answer = http.put("/api/v1/mode", content=b'{"mode": "off"}', headers={"Content-Type": kind})
    problem(answer, 415)
    assert fake_core.snapshot is START


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({}, 422),  # a foreign page could make a browser send it
        ({"content": b"{}", "headers": {"Content-Type": "text/plain"}}, 415),
        ({"data": {"a": "b"}}, 415),
        ({"json": {"name": "phone"}}, 422),
    ],
)
def test_cross_site_request_makes_no_token(
    http: httpx.Client, fake_enroller: FakeEnroller, sent: dict[str, object], status: int
) -> None:
    problem(http.post("/api/v1/agents/phone/token", **sent), status)  # type: ignore[arg-type]
    assert fake_enroller.known["phone"] is PHONE


PUT = b"PUT /api/v1/mode HTTP/1.1\r\n" + HEAD + b"Content-Type: application/json\r\n"
CHUNK = b"%x\r\n%s\r\n" % (1024, b" " * 1024)


@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 1000000000000\r\n\r\n",  # and not a byte of it
        b"Transfer-Encoding: chunked\r\n\r\n" + CHUNK * (LARGEST_BODY_BYTES // 1024 + 1),
    ],
    ids=["announced", "chunked"],
)
def test_huge_body_is_refused(serving: Serving, fake_core: FakeCore, rest: bytes) -> None:
    answer = _raw(serving, PUT + rest)
    assert answer.startswith(b"HTTP/1.1 413 ") and b"application/problem+json" in answer
    assert fake_core.snapshot is START


def test_truncated_body_is_not_processed(serving: Serving, fake_core: FakeCore, http: httpx.Client) -> None:
    with socket.create_connection((serving.endpoint.host, serving.endpoint.port), timeout=30) as connection:
        connection.sendall(PUT + b'Content-Length: 100\r\n\r\n{"mode": "off"}')
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(65536) == b"", "the server has read it and closed the connection"
    assert http.get("/healthz").status_code == 200
    assert fake_core.snapshot is START


def test_garbage_on_the_socket_disturbs_no_other_client(serving: Serving, http: httpx.Client) -> None:
    assert _raw(serving, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert _raw(serving, b"GET /" + b"a" * 100_000).startswith(b"HTTP/1.1 4")
    assert http.get("/healthz").status_code == 200


def _raw(serving: Serving, request: bytes) -> bytes:
    """Return the whole answer. The server closes after an answer to half a request."""
    with socket.create_connection((serving.endpoint.host, serving.endpoint.port), timeout=30) as connection:
        connection.sendall(request)
        answer = bytearray()
        while part := connection.recv(65536):
            answer += part
    return bytes(answer)
