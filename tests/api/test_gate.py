"""Strangers, floods and other formats stay outside."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from controller.api import make_app
from controller.model import Endpoint
from controller.web.gate import LARGEST_BODY_BYTES, CannotServe
from controller.web.serving import Serving
from tests.api.checks import problem
from tests.api.conftest import TOKEN
from tests.api.desk import SETTINGS, START, Desk

OFF = {"mode": "off"}


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8653", "127.0.0.1.evil.example", "192.0.2.1", "[", ""),
        *("evil@127.0.0.1", "127.0.0.1#evil", "127.0.0.1/evil", "127.0.0.1?evil", "127.0.0.1:evil", "[::1]evil"),
    ],
)
def test_a_name_that_is_not_ours_is_not_answered(http: httpx.Client, desk: Desk, host: str) -> None:
    problem(http.get("/api/v1/terminals", headers={"Host": host}), 421)
    problem(http.put("/api/v1/mode", json=OFF, headers={"Host": host}), 421)
    assert desk.snapshot is START


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8653", "[::1]:8653"])
def test_our_own_names_are_answered(http: httpx.Client, host: str) -> None:
    assert http.get("/api/v1/terminals", headers={"Host": host}).status_code == 200


@pytest.fixture
def outside(guarded: Serving) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{guarded.endpoint}", trust_env=False) as client:
        yield client


@pytest.mark.parametrize(
    "given", [None, "Bearer", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer \xe9"]
)
def test_without_the_token_nothing_is_read_and_nothing_done(
    outside: httpx.Client, desk: Desk, given: str | None
) -> None:
    headers = [] if given is None else [(b"Authorization", given.encode("latin-1"))]
    for path in ("/api/v1/terminals", "/metrics", "/healthz", "/api/v1/openapi.json", "/nothing"):
        answer = outside.get(path, headers=headers)
        problem(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"
    problem(outside.put("/api/v1/mode", json=OFF, headers=headers), 401)
    assert desk.snapshot is START


def test_with_the_token_all_is_answered_under_any_name(outside: httpx.Client) -> None:
    outside.headers = httpx.Headers({"Authorization": f"bearer {TOKEN}", "Host": "gateway.example"})
    assert outside.get("/metrics").status_code == 200
    assert outside.put("/api/v1/mode", json=OFF).json()["changed"]
    assert outside.get("/api/v1/openapi.json").json()["security"] == [{"token": []}]


def test_an_address_for_strangers_needs_a_token(desk: Desk) -> None:
    settings = replace(SETTINGS, api=Endpoint("192.0.2.1", 8653))
    with pytest.raises(CannotServe, match=re.escape("controller.api.token_file")):
        make_app(desk.read, desk.program, desk.decisions, desk, settings)


@pytest.mark.parametrize("content", [None, b"", b"\n", b"two words", b"\xff\xfe"])
def test_a_token_that_is_none_is_refused(desk: Desk, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CannotServe, match=re.escape(str(file))):
        make_app(desk.read, desk.program, desk.decisions, desk, replace(SETTINGS, token_file=str(file)))


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "garbage", ""]
)
def test_a_body_that_is_not_json_is_not_looked_at(http: httpx.Client, desk: Desk, kind: str) -> None:
    answer = http.put("/api/v1/mode", content=b'{"mode": "off"}', headers={"Content-Type": kind})
    problem(answer, 415)
    assert desk.snapshot is START


def test_a_body_of_no_type_is_not_looked_at(http: httpx.Client, desk: Desk) -> None:
    problem(http.put("/api/v1/mode", content=b'{"mode": "off"}'), 415)
    assert desk.snapshot is START


def test_a_huge_body_is_refused_before_it_is_sent(serving: Serving, desk: Desk) -> None:
    answer = _raw(
        serving,
        b"PUT /api/v1/mode HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000000000000\r\n\r\n",
    )
    assert answer.startswith(b"HTTP/1.1 413 ") and b"application/problem+json" in answer
    assert desk.snapshot is START


def test_a_body_that_grows_without_saying_so_is_refused_when_it_is_huge(serving: Serving, desk: Desk) -> None:
    chunk = b"%x\r\n%s\r\n" % (1024, b" " * 1024)
    answer = _raw(
        serving,
        b"PUT /api/v1/mode HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n" + chunk * (LARGEST_BODY_BYTES // 1024 + 1),
    )
    assert answer.startswith(b"HTTP/1.1 413 ") and b"application/problem+json" in answer
    assert desk.snapshot is START


def test_half_a_body_is_not_taken_for_a_whole_one(serving: Serving, desk: Desk, http: httpx.Client) -> None:
    with socket.create_connection((serving.endpoint.host, serving.endpoint.port), timeout=30) as connection:
        connection.sendall(
            b"PUT /api/v1/mode HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b'Content-Length: 100\r\n\r\n{"mode": "off"}'
        )
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(65536) == b"", "it is closed, and so it was looked at"
    assert http.get("/healthz").status_code == 200
    assert desk.snapshot is START


def test_garbage_on_the_socket_disturbs_nobody(serving: Serving, http: httpx.Client) -> None:
    assert _raw(serving, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert _raw(serving, b"GET /" + b"a" * 100_000).startswith(b"HTTP/1.1 4")
    assert http.get("/healthz").status_code == 200


def _raw(serving: Serving, request: bytes) -> bytes:
    """All that comes back; the server closes after an answer to half a request."""
    with socket.create_connection((serving.endpoint.host, serving.endpoint.port), timeout=30) as connection:
        connection.sendall(request)
        answer = bytearray()
        while part := connection.recv(65536):
            answer += part
    return bytes(answer)
