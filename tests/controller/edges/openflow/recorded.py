# SPDX-License-Identifier: Apache-2.0
"""Messages of Open vSwitch 3.1 for one of our gateways, byte for byte, for tests that mutate them.

`recorded.txt` beside this file has one message a line. This command prints it again, in a namespace:

    python -m lab.stage.isolate python -m tests.controller.edges.openflow.recorded
"""

from __future__ import annotations

import socket
import struct
import tempfile
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from controller.edges.openflow.frames import ask
from controller.edges.openflow.speaker import SwitchSession
from controller.program.program import COOKIE, METER_IDS
from controller.protocol.switch_messages import Ask, Read
from tests.controller.edges.openflow.conftest import WireRecorder
from tests.controller.edges.openflow.home import DPID, CoreOnWire
from tests.controller.edges.openflow.peers import (
    BARRIER_REPLY,
    BARRIER_REQUEST,
    ECHO_REPLY,
    ECHO_REQUEST,
    ERROR,
    FEATURES_REPLY,
    FEATURES_REQUEST,
    FLOW_MOD,
    HELLO,
    MULTIPART_REPLY,
    MULTIPART_REQUEST,
    PACKET_IN,
    PORT_DESC,
    PORT_STATUS,
    message,
)
from tests.controller.edges.openflow.switches import Ovs

FILE = Path(__file__).with_suffix(".txt")
SET_CONFIG, SET_ASYNC = 9, 28
MAC = "02:00:00:00:04:07"
ODD = [  # entries with our cookie that our model cannot express
    "table=1,priority=77,ip,nw_frag=later,actions=dec_ttl,output:1",
    "table=1,priority=77,tcp,tcp_flags=+syn-ack,actions=load:5->NXM_NX_REG0[3..7],goto_table:9",
    "table=1,priority=76,tcp,actions=move:NXM_OF_TCP_SRC[]->NXM_OF_TCP_DST[],output:1",
    "table=2,priority=77,dl_vlan=5,actions=pop_vlan,set_queue:3,write_actions(output:1),write_metadata:5",
]


def messages() -> dict[str, bytes]:
    lines = (line.split() for line in FILE.read_text().splitlines())
    return {name: bytes.fromhex(digits) for name, digits in lines}


class _Line:
    """A connection to the bridge's own socket, which accepts orders from any local process."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._buffer = b""

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def wait(self, kind: int) -> bytes:
        while True:
            size = int.from_bytes(self._buffer[2:4], "big") if len(self._buffer) >= 8 else 8
            if len(self._buffer) < size or size == 0:
                self._buffer += self._socket.recv(65536)
                continue
            found, self._buffer = self._buffer[:size], self._buffer[size:]
            if found[1] == kind:
                return found


def record(ovs: Ovs) -> dict[str, bytes]:
    for flow in ODD:
        ovs.ofctl("own", "add-flow", f"cookie={COOKIE:#x},{flow}")
    ovs.ofctl("own", "add-flow", "table=9,tcp,actions=learn(table=8,NXM_OF_IN_PORT[]),output:1")
    ovs.ofctl("own", "add-meter", f"meter={METER_IDS[-1]},pktps,burst,bands=type=drop,rate=100,burst_size=50")
    line = _Line(ovs.directory / "own.mgmt")
    found = {}
    line.send(message(HELLO) + message(FEATURES_REQUEST) + message(ECHO_REQUEST, b"there?"))
    found["hello"] = line.wait(HELLO)
    found["features"] = line.wait(FEATURES_REPLY)
    found["echo"] = line.wait(ECHO_REPLY)
    line.send(message(MULTIPART_REQUEST, struct.pack("!HH4x", PORT_DESC, 0)))
    found["ports"] = line.wait(MULTIPART_REPLY)
    line.send(SwitchSession(1, DPID, "").read(Read(1, 1)))
    for name in ("flows", "groups", "meters", "group-counters", "port-counters", "meter-counters"):
        found[name] = line.wait(MULTIPART_REPLY)
    line.send(
        message(SET_CONFIG, struct.pack("!HH", 0, 0xFFFF)) + message(SET_ASYNC, struct.pack("!6I", *(6 * [0xFFFF])))
    )
    line.send(message(FLOW_MOD, bytes(40), 9) + message(BARRIER_REQUEST, xid=10))
    found["error"] = line.wait(ERROR)
    found["barrier"] = line.wait(BARRIER_REPLY)
    ovs.appctl("netdev-dummy/set-admin-state", "own1", "down")
    found["port"] = line.wait(PORT_STATUS)
    ovs.appctl("netdev-dummy/set-admin-state", "own1", "up")
    ovs.ofctl("own", "add-flow", "table=0,priority=999,actions=controller:65535")
    ovs.receive("own2", ask(Ask(0, 1, MAC, IPv4Address("10.0.0.7"), IPv4Address("10.0.0.1"))))
    found["arp"] = line.wait(PACKET_IN)
    ovs.receive("own2", ask(Ask(0, 1, MAC, IPv6Address("fd00:1::7"), IPv6Address("fd00:1::1"))))
    found["solicitation"] = line.wait(PACKET_IN)
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        ovs, recorder = Ovs(Path(directory)), WireRecorder()
        ovs.bridge("own", DPID, recorder.target)
        home = CoreOnWire(recorder)
        home.on_event(recorder.opened(DPID))
        lines = [f"{name} {data.hex()}" for name, data in record(ovs).items()]
        recorder.wire.stop()
        ovs.stop()
    print("\n".join(lines))


if __name__ == "__main__":
    main()
