# SPDX-License-Identifier: Apache-2.0
"""A controller killed during a reconciliation costs no packet, and the next one completes the work."""

from __future__ import annotations

import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lab.processes.controller import OPENFLOW_ADDRESS, controlled
from lab.processes.openflow_spy import MODIFICATIONS
from lab.stage.stage import raised
from tests.system.conftest import PAPER, GatewayLab
from tests.system.evidence import PATIENCE_S, program, until
from tests.system.pinging import assert_each_once, pinging
from topologies.paper import BRIDGE, PaperTopo

HEADER = struct.Struct("!BBHI")  # version, type, length, xid
GUEST = """\
      guest:
        addresses: [{address: 192.168.110.77, port: gw-c1, mac: "02:00:00:00:00:77"}]
"""
CALLS = ", calls: {protocols: [udp], ports: [5060-5075]}"


def written(pings: str, calls: str = "", guest: str = "") -> str:
    """Return the paper's gateway with a class for pings on one uplink, so that each ping gets one answer."""
    text = PAPER.read_text().replace("        mode: bicast\n", "        mode: bicast\n        modes: {pings: single}\n")
    return text.replace("    uplinks:\n", f"    classes: {{pings: {pings}{calls}}}\n    uplinks:\n") + guest


FEW, MORE = written("{protocols: [icmp]}"), written("{protocols: [icmp], dscp: [0]}", CALLS, GUEST)


class CutProxy:
    """A proxy between a switch and its controller. It calls `blow` right after the chosen message."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.target = f"tcp:127.0.0.1:{self._listener.getsockname()[1]}"
        self._left = 0  # changes of the switch's program before it blows; 0: never
        self._blow: Callable[[], None] = lambda: None
        self.blown = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, changes: int, blow: Callable[[], None]) -> None:
        self.blown.clear()
        self._left, self._blow = changes, blow

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                switch, _ = self._listener.accept()
            except OSError:
                return
            try:
                controller = socket.create_connection((OPENFLOW_ADDRESS.host, OPENFLOW_ADDRESS.port))
            except OSError:  # the controller is dead
                switch.close()
                continue
            for source, sink, counted in ((switch, controller, False), (controller, switch, True)):
                threading.Thread(target=self._pass_on, args=(source, sink, counted), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        data = b""
        with suppress(OSError):  # the other direction has ended it
            while more := source.recv(1 << 16):
                data += more
                while len(data) >= HEADER.size and len(data) >= (length := HEADER.unpack_from(data)[2]):
                    message, data = data[:length], data[length:]
                    sink.sendall(message)
                    if counted and message[1] in MODIFICATIONS and self._blows():
                        data = b""
                        break
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _blows(self) -> bool:
        self._left -= 1
        if self._left == 0:
            self._blow()
            self.blown.set()
        return self._left == 0


@pytest.fixture(scope="module")
def fuse() -> Iterator[CutProxy]:
    made = CutProxy()
    yield made
    made.close()


@pytest.fixture(scope="module")
def home(place: Path, fuse: CutProxy) -> Iterator[GatewayLab]:
    file, kept = place / "halfway.yaml", place / "kept"
    file.write_text(FEW)
    kept.mkdir()
    with (
        controlled(file, directory=kept) as controller,
        raised(PaperTopo(shaped=False), controller=fuse.target) as net,
    ):
        controller.await_steady()
        home = GatewayLab(net, controller)
        home.returns_soon()
        yield home


def take(home: GatewayLab, text: str) -> None:
    file = home.controller.file
    file.write_text(file.read_text().splitlines(keepends=True)[0] + text)  # the first line has the test's settings
    home.controller.process.send_signal(signal.SIGHUP)


def finished(home: GatewayLab, text: str) -> tuple[list[str], list[str]]:
    """Return the program that an undisturbed controller installs."""
    take(home, text)
    home.controller.await_word("is in force")
    home.await_in_force()
    return program(BRIDGE)


@pytest.mark.parametrize("changes", [1, 9])
def test_a_controller_killed_between_changes_loses_no_packet(home: GatewayLab, fuse: CutProxy, changes: int) -> None:
    more, few = finished(home, MORE), finished(home, FEW)
    with pinging(home, "192.168.110.3") as said:
        fuse.set(changes, home.controller.kill)
        take(home, MORE)
        assert fuse.blown.wait(PATIENCE_S)
        until(lambda: program(BRIDGE) not in (few, more), "the switch has taken what was sent")
        home.controller.start()
        home.controller.await_steady()
    assert program(BRIDGE) == more
    assert_each_once(said())
