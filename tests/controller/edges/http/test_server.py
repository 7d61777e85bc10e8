# SPDX-License-Identifier: Apache-2.0
"""The API's socket is bound or inherited, and released at the end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace

import httpx
import pytest

from controller.edges.http.access_control import CannotServe
from controller.edges.http.app import make_app
from controller.edges.http.server import serve
from controller.model.settings import Endpoint
from tests.controller.edges.http.fake_core import BEARER, SETTINGS, TOKEN, FakeCore
from tests.system.evidence import PATIENCE_S

CHILD = """
import sys
from tests.controller.edges.http.fake_core import SETTINGS, TOKEN, FakeCore
from controller.edges.http.app import make_app
from controller.edges.http.access_control import CannotServe
from controller.edges.http.server import serve
desk = FakeCore()
try:
    running = serve(make_app(desk.read, desk.program, desk.decisions, desk, TOKEN), SETTINGS)
except CannotServe as error:
    sys.exit(str(error))
print(running.endpoint, flush=True)
sys.stdin.read()
running.stop()
"""


def test_address_in_use_is_one_sentence(fake_core: FakeCore) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        endpoint = Endpoint("127.0.0.1", other.getsockname()[1])
        settings = replace(SETTINGS, api=endpoint)
        with pytest.raises(CannotServe) as refused:
            serve(make_app(fake_core.read, fake_core.program, fake_core.decisions, fake_core, TOKEN), settings)
    assert str(endpoint) in str(refused.value) and "taken" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_stop_ends_the_threads_and_releases_the_address(fake_core: FakeCore) -> None:
    app = make_app(fake_core.read, fake_core.program, fake_core.decisions, fake_core, TOKEN)
    before = _servers()
    running = serve(app, SETTINGS)
    endpoint = running.endpoint
    assert _servers() > before
    with httpx.Client(base_url=f"http://{endpoint}", headers=BEARER, trust_env=False, timeout=PATIENCE_S) as idle:
        assert idle.get("/healthz").status_code == 200
        running.stop()
    assert _servers() == before
    again = serve(app, replace(SETTINGS, api=endpoint))
    again.stop()


@pytest.mark.timed
def test_small_answer_is_not_delayed_by_an_ack(http: httpx.Client) -> None:
    took = []
    for _ in range(40):
        started = time.monotonic()
        http.get("/healthz")
        took.append(time.monotonic() - started)
    assert min(took[20:]) < 0.040  # the shortest ACK delay of Linux; a connection's first ACKs are not delayed


def test_head_returns_the_headers_without_a_body(http: httpx.Client) -> None:
    for path in ("/api/v1/status", "/api/v1/nothing"):
        whole, head = http.get(path), http.head(path)
        assert (head.status_code, head.content) == (whole.status_code, b"")
        assert head.headers["content-type"] == whole.headers["content-type"]
    assert http.head("/api/v1/mode").headers["allow"] == "PUT"
    assert http.get("/healthz").status_code == 200, "the next answer was not read as a body"


def _servers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "api"}


def begin(words: list[str], environment: dict[str, str], *handed_in: int) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(words, pass_fds=handed_in, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def _child(handed_in: int, **environment: str) -> subprocess.Popen[str]:
    """Start a process that serves the socket on its file descriptor 3."""
    script = 'exec 3<&"$1" && exec "$2" -c "$3"'
    words = ["bash", "-c", script, "child", str(handed_in), sys.executable, CHILD]
    return begin(words, {**os.environ, **environment}, handed_in)


def test_inherited_socket_is_served() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint(*listener.getsockname())
        child = _child(listener.fileno(), LISTEN_FDS="1")
        answer = httpx.get(f"http://{endpoint}/healthz", headers=BEARER, trust_env=False, timeout=PATIENCE_S)
        assert json.loads(answer.text) == {"status": "ok"}
        told, complaints = child.communicate("")
    assert (told.strip(), complaints, child.returncode) == (str(endpoint), "", 0)


def test_inherited_socket_of_another_process_is_ignored() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = _child(listener.fileno(), LISTEN_FDS="1", LISTEN_PID="1")
        told, complaints = child.communicate("")
        assert told.strip() != str(Endpoint(*listener.getsockname()))
    assert (complaints, child.returncode) == ("", 0)


@pytest.mark.parametrize(
    ("kind", "named"), [("file", "not a socket"), ("datagram", "a listening TCP socket"), ("open", "token_file")]
)
def test_unusable_socket_is_one_sentence(kind: str, named: str) -> None:
    if kind == "file":
        handed_in, close = (read_end := os.pipe()[0]), lambda: os.close(read_end)
    else:
        bound = socket.create_server(("0.0.0.0", 0)) if kind == "open" else socket.socket(type=socket.SOCK_DGRAM)
        handed_in, close = bound.fileno(), bound.close
    child = _child(handed_in, LISTEN_FDS="1")
    told, complaints = child.communicate("")
    close()
    assert (told, child.returncode) == ("", 1)
    assert named in complaints and complaints.count("\n") == 1
