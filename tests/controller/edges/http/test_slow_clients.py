# SPDX-License-Identifier: Apache-2.0
"""A client that sends half a request or reads no answer times out and blocks no other client."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace

import httpx
import pytest

from controller.edges.http import server
from controller.edges.http.app import make_app
from controller.edges.http.server import Serving, serve
from controller.model.settings import Endpoint
from tests.controller.edges.http.fake_core import BEARER, HEAD, SETTINGS, START, TOKEN, FakeCore
from tests.controller.edges.http.test_server import CHILD, begin
from tests.controller.edges.openflow.switches import until
from tests.system.evidence import PATIENCE_S

HALF_A_HEAD = b"GET /healthz HTTP/1.1\r\n" + HEAD + b"X-Slow: "
HALF_A_BODY = (
    b"PUT /api/v1/mode HTTP/1.1\r\n" + HEAD + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
)
WHOLE = b"GET /healthz HTTP/1.1\r\n" + HEAD + b"\r\n"
SHORT_S = 0.3
LONGER_S = 3.0  # longer than a loaded machine stalls
DESCRIPTORS = 128
LARGE = 30_000_000  # more than two socket buffers hold


@pytest.fixture
def impatient(fake_core: FakeCore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    monkeypatch.setattr(server, "REQUEST_WITHIN_S", SHORT_S)
    running = serve(make_app(fake_core.read, fake_core.program, fake_core.decisions, fake_core, TOKEN), SETTINGS)
    yield running
    running.stop()


def _connected(endpoint: Endpoint) -> socket.socket:
    return socket.create_connection((endpoint.host, endpoint.port), timeout=60)


def until_closed(asking: socket.socket) -> bytes:
    said = b""
    with suppress(ConnectionResetError):
        while part := asking.recv(65536):
            said += part
    return said


@pytest.mark.parametrize("half", [b"", b"G", HALF_A_HEAD, HALF_A_BODY])
def test_half_a_request_times_out(impatient: Serving, fake_core: FakeCore, half: bytes) -> None:
    with _connected(impatient.endpoint) as asking:
        asking.sendall(half)
        assert until_closed(asking) == b""
    assert fake_core.snapshot is START


@pytest.mark.parametrize("half", [HALF_A_HEAD, HALF_A_BODY])
def test_slow_request_has_no_more_time_than_another(impatient: Serving, half: bytes) -> None:
    with _connected(impatient.endpoint) as asking:
        asking.sendall(half)
        asking.settimeout(SHORT_S / 10)
        for _ in range(2000):  # each well before the timeout
            try:
                asking.sendall(b" ")
                assert asking.recv(1) == b""
                break
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                break
        else:
            pytest.fail("a dripping request keeps its connection")


def test_idle_connection_is_closed_after_an_answer(impatient: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_WITHIN_S", LONGER_S)  # otherwise the request may be too late
    for more in (b"", HALF_A_HEAD):
        with _connected(impatient.endpoint) as asking:
            asking.sendall(WHOLE)
            while not asking.recv(65536).endswith(b'{"status":"ok"}'):
                pass
            asking.sendall(more)
            assert until_closed(asking) == b""


def test_answer_that_is_not_read_times_out(
    impatient: Serving, fake_core: FakeCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "ANSWER_WITHIN_S", SHORT_S)
    fake_core.snapshot = replace(START, config_error="x" * LARGE)
    with _connected(impatient.endpoint) as asking:
        asking.sendall(b"GET /api/v1/status HTTP/1.1\r\n" + HEAD + b"\r\n")
        with suppress(ConnectionResetError):
            asking.recv(1)
        until(lambda: not impatient._server.server_state.connections, "it is closed")
        assert len(until_closed(asking)) < LARGE


def test_unread_answers_do_not_block_other_clients(fake_core: FakeCore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 8)
    fake_core.snapshot = replace(START, config_error="x" * (LARGE // 3))
    running = serve(make_app(fake_core.read, fake_core.program, fake_core.decisions, fake_core, TOKEN), SETTINGS)
    with ExitStack() as attack:
        asking = []
        for _ in range(8):
            asking.append(attack.enter_context(_connected(running.endpoint)))
            asking[-1].sendall(b"GET /api/v1/status HTTP/1.1\r\n" + HEAD + b"\r\n")
            assert asking[-1].recv(1), "it is being answered"
        for _ in range(2):
            with _connected(running.endpoint) as late:
                late.sendall(WHOLE)
                assert late.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert len(until_closed(asking[0])) < LARGE // 3, "the oldest one was closed"
        running.stop()


def test_next_request_of_a_client_restarts_its_timeout(impatient: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("REQUEST_WITHIN_S", "ANSWER_WITHIN_S"):
        monkeypatch.setattr(server, limit, 3600.0)
    with httpx.Client(
        base_url=f"http://{impatient.endpoint}", headers=BEARER, trust_env=False, timeout=PATIENCE_S
    ) as client:
        assert client.get("/healthz").status_code == 200
        (connection,) = impatient._server.server_state.connections
        deadline = connection._deadline  # type: ignore[union-attr]
        assert client.get("/healthz").status_code == 200
        assert deadline.cancelled() and impatient._server.server_state.connections == {connection}


def test_hundreds_of_half_requests_do_not_block_other_clients() -> None:
    script = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS}))\n{CHILD}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LISTEN_")}
    child = begin([sys.executable, "-c", script], environment)
    assert child.stdout is not None
    host, _, port = child.stdout.readline().strip().rpartition(":")
    with ExitStack() as attack:
        for _ in range(4 * DESCRIPTORS):
            half = attack.enter_context(_connected(Endpoint(host, int(port))))
            half.sendall(HALF_A_HEAD)
        for _ in range(10):
            answer = httpx.get(f"http://{host}:{port}/healthz", headers=BEARER, trust_env=False, timeout=60)
            assert answer.status_code == 200
        _, complaints = child.communicate("", timeout=30)
    assert child.returncode == 0
    assert complaints.count("\n") == 1 and f"limit of {DESCRIPTORS // 4} connections" in complaints
