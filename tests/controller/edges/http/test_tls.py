# SPDX-License-Identifier: Apache-2.0
"""The API over TLS, as it must be beyond loopback."""

from __future__ import annotations

import argparse
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from cli import Failure
from cli.client import api_client
from controller.edges.http import server
from controller.edges.http.app import make_app
from controller.edges.http.server import Serving, serve
from controller.edges.trust import admission
from controller.edges.trust.tls import TlsError
from controller.model.settings import Tls
from tests.controller.edges.authority import Authority
from tests.controller.edges.http.conftest import problem
from tests.controller.edges.http.fake_core import BEARER, SETTINGS, TOKEN, FakeCore
from tests.controller.edges.http.test_slow_clients import LARGE, SHORT_S, START, until_closed
from tests.controller.edges.openflow.switches import until
from tests.system.evidence import PATIENCE_S

NAME = "gateway.home.example"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), "household")


@pytest.fixture
def secured(authority: Authority, fake_core: FakeCore) -> Iterator[Serving]:
    settings = replace(SETTINGS, api_tls=Tls(*authority.sign("gateway", "localhost", NAME)))
    running = serve(make_app(fake_core.read, fake_core.program, fake_core.decisions, fake_core, TOKEN), settings)
    yield running
    running.stop()


@pytest.fixture
def https(secured: Serving, authority: Authority) -> Iterator[httpx.Client]:
    trusting = ssl.create_default_context(cafile=authority.certificate)
    url = f"https://localhost:{secured.endpoint.port}"
    with httpx.Client(base_url=url, verify=trusting, trust_env=False, timeout=PATIENCE_S) as client:
        yield client


def _connected(serving: Serving) -> socket.socket:
    return socket.create_connection((serving.endpoint.host, serving.endpoint.port), timeout=PATIENCE_S)


def _options(serving: Serving, tmp_path: Path, ca: str | None, scheme: str = "https://") -> argparse.Namespace:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    return argparse.Namespace(api=f"{scheme}localhost:{serving.endpoint.port}", token_file=str(file), ca=ca)


def test_requests_are_answered_over_tls_alone(secured: Serving, https: httpx.Client) -> None:
    assert secured.url.startswith("https://")
    assert https.get("/healthz", headers=BEARER).json() == {"status": "ok"}
    problem(https.get("/healthz"), 401)
    with _connected(secured) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"HTTP" not in until_closed(plain)


def test_browser_signs_in_under_a_name_of_the_certificate(https: httpx.Client) -> None:
    code = https.post("/api/v1/page/links", json={"access": "operate"}, headers=BEARER).json()["code"]
    host = f"{NAME}:{https.base_url.port}"
    answer = https.post(
        "/api/v1/page/session", json={"code": code}, headers={"Host": host, "Origin": f"https://{host}"}
    )
    assert answer.status_code == 200, answer.text
    assert "Secure" in answer.headers["set-cookie"]
    plain = {"Host": host, "Origin": f"http://{host}"}
    problem(https.post("/api/v1/page/session", json={"code": code}, headers=plain), 403)


def test_command_line_compares_the_certificate(secured: Serving, authority: Authority, tmp_path: Path) -> None:
    with api_client(_options(secured, tmp_path, authority.certificate)) as client:
        assert client.get("status")["gateways"]
    unknown, plain = _options(secured, tmp_path, None), _options(secured, tmp_path, None, scheme="http://")
    with pytest.raises(Failure, match=r"is not trusted: .*--ca"), api_client(unknown) as client:
        client.get("status")
    with pytest.raises(Failure, match="begins with https://"), api_client(plain) as client:
        client.get("status")
    with pytest.raises(Failure, match="expected PEM"), api_client(_options(secured, tmp_path, unknown.token_file)):
        pass


def test_certificate_that_cannot_be_used_is_one_sentence(tmp_path: Path, fake_core: FakeCore) -> None:
    settings = replace(SETTINGS, api_tls=Tls(str(tmp_path / "none.pem"), str(tmp_path / "none.key")))
    with pytest.raises(TlsError, match=r"none\.pem with key .*expected a PEM certificate"):
        serve(make_app(fake_core.read, fake_core.program, fake_core.decisions, fake_core, TOKEN), settings)


@pytest.mark.parametrize("half", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "half a hello"])
def test_handshake_times_out(
    monkeypatch: pytest.MonkeyPatch, secured: Serving, https: httpx.Client, half: bytes
) -> None:
    monkeypatch.setattr(server, "HANDSHAKE_WITHIN_S", SHORT_S)
    with _connected(secured) as stranger:
        stranger.sendall(half)
        assert until_closed(stranger) == b""
        until(lambda: not secured._server.server_state.connections, "its slot is free")
    assert https.get("/healthz", headers=BEARER).status_code == 200


def test_unfinished_handshakes_make_room(
    monkeypatch: pytest.MonkeyPatch, secured: Serving, https: httpx.Client
) -> None:
    secured._server.server_state.most = 8
    with ExitStack() as attack:
        strangers = [attack.enter_context(_connected(secured)) for _ in range(24)]
        assert https.get("/healthz", headers=BEARER).status_code == 200
        assert until_closed(strangers[0]) == b"", "the oldest one was closed"
        assert len(secured._server.server_state.connections) <= 8


def test_handshakes_are_bounded_in_rate(
    monkeypatch: pytest.MonkeyPatch, authority: Authority, fake_core: FakeCore
) -> None:
    """CPU is bounded: a host that exceeds its rate costs no handshake."""
    monkeypatch.setattr(admission, "EACH_S", 2)
    settings = replace(SETTINGS, api_tls=Tls(*authority.sign("gateway", "localhost")))
    running = serve(make_app(fake_core.read, fake_core.program, fake_core.decisions, fake_core, TOKEN), settings)
    try:
        shaken = [_shakes(running, authority) for _ in range(3 * int(2 * admission.BURST_S))]
    finally:
        running.stop()
    assert shaken[0] and not shaken[-1]


def _shakes(serving: Serving, authority: Authority) -> bool:
    context = ssl.create_default_context(cafile=authority.certificate)
    try:
        with context.wrap_socket(_connected(serving), server_hostname="localhost"):
            return True
    except OSError:
        return False


def test_answer_that_is_not_read_over_tls_times_out(
    monkeypatch: pytest.MonkeyPatch, secured: Serving, fake_core: FakeCore, authority: Authority
) -> None:
    monkeypatch.setattr(server, "ANSWER_WITHIN_S", SHORT_S)
    fake_core.snapshot = replace(START, config_error="x" * LARGE)
    context = ssl.create_default_context(cafile=authority.certificate)
    with context.wrap_socket(_connected(secured), server_hostname="localhost") as asking:
        head = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        asking.sendall(f"GET /api/v1/status HTTP/1.1\r\n{head}\r\n".encode())
        asking.recv(1)
        until(lambda: not secured._server.server_state.connections, "it is closed")
