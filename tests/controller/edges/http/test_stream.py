# SPDX-License-Identifier: Apache-2.0
"""The page's stream: the whole state, then each change, to many browsers at once."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.edges.http import server, stream
from controller.edges.http.server import Serving
from controller.edges.http.stream import difference
from controller.model.config import Mode
from controller.readout.picture import picture
from controller.readout.snapshot import DeviceView
from tests.controller.edges.http.conftest import problem
from tests.controller.edges.http.fake_core import HEAD, RELAYED, SHARED, START, TUNNELLED, FakeCore
from tests.controller.edges.openflow.switches import until
from tests.system.evidence import PATIENCE_S

PATH = "/api/v1/page/stream"
STATE_BYTES = 400_000
MOST_STATES = 500  # a kernel buffers 4 MB by default
plain = st.recursive(
    st.booleans() | st.integers() | st.text() | st.lists(st.integers()),
    lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)
states = st.dictionaries(st.text(max_size=3), plain, max_size=4)


def merged(value: Any, patch: Any) -> Any:
    """Return the patched value, as RFC 7396 section 2 defines it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, inner in patch.items():
        if inner is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), inner)
    return result


@given(states, states)
def test_difference_leads_from_one_state_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert merged(before, difference(before, after)) == after
    assert difference(after, after) == {}


TABLET = DeviceView("tablet", "192.168.8.57", "02:00:00:00:08:01", "home", "client")


def nulls(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is None or any(map(nulls, inner))


@pytest.mark.parametrize("snapshot", [START, SHARED, RELAYED, replace(START, gateways=(TUNNELLED,), devices=(TABLET,))])
def test_picture_is_json_without_nulls(snapshot: Any) -> None:
    drawn = picture(snapshot)
    assert json.loads(json.dumps(drawn)) == drawn
    assert not nulls(drawn)


class Follower:
    """A page's state, kept by the stream. It reads lines of a socket: each event is one chunk of HTTP."""

    def __init__(self, serving: Serving) -> None:
        self.state: dict[str, Any] = {}
        self._socket = connection(serving)
        self._lines = self._socket.makefile("rb")

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._socket.close()

    def next(self) -> str:
        name = ""
        for line in self._lines:
            if line.startswith(b"event: "):
                name = line.decode().removeprefix("event: ").strip()
            if line.startswith(b"data: "):
                data = json.loads(line.removeprefix(b"data: "))
                self.state = data if name == "whole" else merged(self.state, data)
                return name
        return "end"


def connection(serving: Serving, receive_buffer: int | None = None) -> socket.socket:
    made = socket.socket()
    if receive_buffer is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    made.settimeout(PATIENCE_S)
    made.connect((serving.endpoint.host, serving.endpoint.port))
    made.sendall(b"GET %s HTTP/1.1\r\n%s\r\n" % (PATH.encode(), HEAD))
    return made


@pytest.fixture
def follower(serving: Serving, fake_core: FakeCore) -> Iterator[Follower]:
    with Follower(serving) as one:
        yield one


def test_follower_gets_the_whole_state_then_only_changes(follower: Follower, fake_core: FakeCore) -> None:
    assert follower.next() == "whole"
    assert follower.state == picture(START)
    fake_core.set_mode("client", Mode.SINGLE)
    assert follower.next() == "patch"
    assert follower.state["terminals"]["client"]["mode"] == "single"
    assert follower.state == picture(fake_core.snapshot)


def test_follower_learns_that_the_core_is_silent_and_that_it_answers_again(
    follower: Follower, fake_core: FakeCore
) -> None:
    follower.next()
    fake_core.silent = True
    follower.next()
    assert "did not answer" in follower.state["failure"]
    fake_core.silent = False
    follower.next()
    assert "failure" not in follower.state


def test_followers_read_the_state_together(serving: Serving, fake_core: FakeCore) -> None:
    with ExitStack() as stack:
        followers = [stack.enter_context(Follower(serving)) for _ in range(50)]
        assert {each.next() for each in followers} == {"whole"}
        fake_core.set_mode("client", Mode.OFF)
        for each in followers:
            each.next()
            assert each.state == picture(fake_core.snapshot)


def test_stream_is_of_events(http: httpx.Client) -> None:
    with http.stream("GET", PATH) as answer:
        assert answer.headers["content-type"].startswith(stream.MEDIA_TYPE)


def test_page_beyond_the_limit_is_refused(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MOST_FOLLOWERS", 0)
    assert "close one" in problem(http.get(PATH), 503)["detail"]


def test_browser_that_reads_nothing_is_dropped_and_others_go_on(
    serving: Serving, follower: Follower, fake_core: FakeCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "ANSWER_WITHIN_S", 0.5)
    monkeypatch.setattr(stream, "PERIOD_S", 0.01)
    follower.next()
    (own,) = serving._server.server_state.connections
    with connection(serving, receive_buffer=4096):
        until(lambda: len(serving._server.server_state.connections) > 1, "the sleeper is there")
        for number in range(MOST_STATES):
            fake_core.snapshot = replace(START, config_error=f"{number} " + STATE_BYTES * "x")
            follower.next()
            assert follower.state["config"]["error"].startswith(f"{number} ")
            if serving._server.server_state.connections == {own}:
                return
    raise AssertionError(f"the server still holds {MOST_STATES * STATE_BYTES} bytes for a browser that reads nothing")
