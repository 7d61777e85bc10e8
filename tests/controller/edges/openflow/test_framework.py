# SPDX-License-Identifier: Apache-2.0
"""Pitfalls of both frameworks, each observed in practice."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from controller.edges.openflow import app, connection, framework
from controller.edges.openflow.connection import ECHO_S, SILENT_ECHOES
from controller.edges.openflow.errors import FrameworkError
from controller.model.settings import Endpoint
from controller.protocol.switch_messages import (
    Ask,
    Close,
    PortSeen,
    SwitchClosed,
    SwitchEvent,
    SwitchOpened,
    SwitchRefused,
)
from tests.controller.edges.openflow.conftest import WireRecorder
from tests.controller.edges.openflow.peers import BARRIER_REPLY, ECHO_REPLY, ECHO_REQUEST, ERROR, Peer, message
from tests.controller.edges.openflow.switches import PATIENCE_S, Ovs, until

HOUSE = Path(__file__).parents[4]
SILENCE_S = ECHO_S * SILENT_ECHOES  # silence after which a switch is disconnected


def _python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=HOUSE, env=env)


def _listening() -> set[tuple[str, int]]:
    """Return the addresses on which this process listens, of either family."""
    ours = {str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in ours:
                host, port = local.split(":")
                found.add((host, int(port, 16)))
    return found


def test_missing_framework_is_refused_by_name() -> None:
    other = "os_ken" if framework.NAME == "ryu" else "ryu"
    done = _python("import controller.edges.openflow.framework", BICAST_FRAMEWORK=other)
    assert done.returncode == 1
    assert f"FrameworkError: {other} is not installed" in done.stderr


def test_nothing_is_monkey_patched() -> None:
    names = "socket.socket, threading.Thread, threading.Lock, time.sleep, ssl.SSLSocket, select.select, queue.Queue"
    done = _python(
        "import socket, threading, time, ssl, select, queue\n"
        f"before = [{names}]\n"
        "import controller.edges.openflow.app\n"
        f"assert before == [{names}]"
    )
    assert done.returncode == 0, done.stderr


def test_wire_listens_only_at_its_address() -> None:
    before = _listening()
    recorder = WireRecorder()
    try:
        assert _listening() - before == {("0100007F", recorder.wire.address.port)}
    finally:
        recorder.wire.stop()
    until(lambda: _listening() == before, "the listening ends")


def test_address_in_use_is_refused_with_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            FrameworkError, match=f"cannot listen for switches on 127.0.0.1:{port}: Address already in use"
        ):
            app.Wire(Endpoint("127.0.0.1", port), None, lambda _: None)


CONNECTED = """
import queue
from controller.edges.openflow.app import Wire
from controller.model.settings import Endpoint
from tests.controller.edges.openflow.peers import Peer
events = queue.SimpleQueue()
wire = Wire(Endpoint("127.0.0.1", 0), None, events.put)
peer = Peer(wire.address)
peer.become_switch(7)
assert events.get(timeout=60).dpid == 7
"""


@pytest.mark.parametrize("ending", ["wire.stop()", "pass"])
def test_process_ends_with_switches_connected(ending: str) -> None:
    done = _python(f"{CONNECTED}\n{ending}")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_handler_error_ends_only_its_connection(ovs: Ovs, caplog: pytest.LogCaptureFixture) -> None:
    """The native hub treats every Exception as a request to exit, which would end its event loop."""
    told: list[SwitchEvent] = []

    def post(event: SwitchEvent) -> None:
        if isinstance(event, PortSeen):
            raise ZeroDivisionError("a bug of the core")
        told.append(event)

    def opened() -> list[int]:
        return [event.dpid for event in told if isinstance(event, SwitchOpened)]

    wire = app.Wire(Endpoint("127.0.0.1", 0), None, post)
    try:
        ovs.bridge("buggy", 0xE1, f"tcp:127.0.0.1:{wire.address.port}")
        ovs.bridge("other", 0xE2, f"tcp:127.0.0.1:{wire.address.port}")
        until(lambda: set(opened()) == {0xE1, 0xE2}, "both connect")
        ovs.appctl("netdev-dummy/set-admin-state", "buggy1", "down")
        until(lambda: len(opened()) > 2, "it comes back")
        assert opened()[2] == 0xE1
        assert "on_port failed" in caplog.text and "a bug of the core" in caplog.text
        (buggy, *_) = (event.session for event in told if isinstance(event, SwitchOpened) and event.dpid == 0xE1)
        assert [event.session for event in told if isinstance(event, SwitchClosed)] == [buggy]
    finally:
        ovs.remove("buggy", "other")
        wire.stop()


def test_vanished_switch_is_noticed_by_its_silence(recorder: WireRecorder, ovs: Ovs, bridge: SwitchOpened) -> None:
    assert SILENCE_S < 5
    ovs.pause(True)
    try:
        assert recorder.wait(SwitchClosed).session == bridge.session
    finally:
        ovs.pause(False)
    recorder.opened(0xB1)


def test_disconnect_of_a_switch_is_noticed_at_once(recorder: WireRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SILENT_ECHOES", 3600)  # silence is not noticed
    with Peer(recorder.wire.address) as peer:
        peer.become_switch(5)
        session = recorder.opened(5).session
    assert recorder.wait(SwitchClosed).session == session


def test_silent_switch_that_answers_echoes_stays(recorder: WireRecorder) -> None:
    with Peer(recorder.wire.address) as peer:
        peer.become_switch(5)
        recorder.opened(5)
        for _ in range(6):  # longer than the silence that would end it
            xid, body = peer.wait(ECHO_REQUEST)
            peer.send(message(ECHO_REPLY, body, xid))
        assert not [event for event in recorder.drain() if isinstance(event, SwitchClosed)]


def test_orders_never_wait_for_a_switch_that_does_not_read(
    recorder: WireRecorder, bridge: SwitchOpened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frameworks' queues hold 16 and 128 messages and then block the sender."""
    monkeypatch.setattr(connection, "SILENT_ECHOES", 3600)  # the switch is never disconnected
    with Peer(recorder.wire.address) as peer:
        peer.become_switch(5)
        deaf = recorder.opened(5).session
        started = time.monotonic()
        for _ in range(3000):
            recorder.perform(Ask(deaf, 1, "08:00:27:81:6b:cf", IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2")))
        assert time.monotonic() - started < PATIENCE_S, "an order waited for the switch that does not read"
        assert recorder.read(bridge.session).program.flows == {}


def test_more_messages_than_a_queue_holds_all_arrive(recorder: WireRecorder, bridge: SwitchOpened) -> None:
    with Peer(recorder.wire.address) as peer:
        peer.become_switch(5)
        session = recorder.opened(5).session
        peer.send(b"".join(message(BARRIER_REPLY, xid=number) for number in range(5000)))
        peer.send(message(ERROR, b"\x00\x05\x00\x02", xid=77))  # OFPET_FLOW_MOD_FAILED, OFPFMFC_BAD_TABLE_ID
        refused = recorder.wait(SwitchRefused)
        assert refused.session == session
    assert recorder.read(bridge.session).program.flows == {}


def test_order_for_an_ended_session_is_dropped(recorder: WireRecorder, bridge: SwitchOpened) -> None:
    recorder.perform(Close(bridge.session, "the test wants it"))
    recorder.wait(SwitchClosed)
    recorder.perform(Close(bridge.session, "once more"))
    recorder.perform(Ask(bridge.session, 1, "08:00:27:81:6b:cf", IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2")))
    assert recorder.opened(0xB1).session > bridge.session
