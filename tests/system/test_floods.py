# SPDX-License-Identifier: Apache-2.0
"""A terminal that floods the controller does not delay others: a dead uplink is left in time."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address

import pytest

from lab.stage import ovs
from lab.stage.command import run
from lab.stage.nodes import Machine
from tests.system.conftest import GatewayLab
from tests.system.evidence import PATIENCE_S, groups, until
from topologies.wide import BRIDGE

GENEROUS_S = 1.0  # 100 ms are promised; the event of a dead port must not queue behind the flood
FLOOD = """
import socket, sys, time
device, frame = sys.argv[1], bytes.fromhex(sys.argv[2])
mouth = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
mouth.bind((device, 0))
print("begins", flush=True)
began, sent = time.monotonic(), 0
while True:
    while sent < 5000 * (time.monotonic() - began):
        mouth.send(frame)
        sent += 1
    time.sleep(0.005)
"""


def probe(target: IPv6Address) -> bytes:
    """Return a solicitation of duplicate address detection (RFC 4862, 5.4.2)."""
    body = struct.pack("!BBHI16s", 135, 0, 0, 0, target.packed)
    source, group = bytes(16), IPv6Address("ff02::1:ff00:0").packed[:13] + target.packed[13:]
    total = sum(struct.unpack("!32H", source + group + struct.pack("!II", len(body), 58) + body))
    checksum = ~(total + (total >> 16)) & 0xFFFF
    header = struct.pack("!IHBB", 6 << 28, len(body), 58, 255) + source + group
    ethernet = b"\x33\x33" + group[12:] + bytes.fromhex("020000000666") + b"\x86\xdd"
    return ethernet + header + body[:2] + checksum.to_bytes(2, "big") + body[4:]


@contextmanager
def flooding(machine: Machine, device: str, target: str) -> Iterator[None]:
    """Send 5,000 probes for an address each second. The controller answers them, not a flow."""
    words = [sys.executable, "-c", FLOOD, device, probe(IPv6Address(target)).hex()]
    process = machine.popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "begins\n"
        yield
    finally:
        process.kill()
        process.communicate()


def received(port: str) -> int:
    return int(ovs.vsctl("get", "Interface", port, "statistics:rx_packets"))


def copies_to(port: str) -> list[str]:
    return [group for group in groups(BRIDGE) if "type=all" in group and f'output:"{port}"' in group]


@pytest.mark.parametrize("within_s", [PATIENCE_S, pytest.param(GENEROUS_S, marks=pytest.mark.timed)])
def test_a_dead_uplink_is_left_during_a_flood(wide: GatewayLab, within_s: float) -> None:
    until(lambda: bool(copies_to("gw-wifi")), "copies go to gw-wifi")
    sensor = wide.net.machine("sensor")
    (device,) = [
        each["ifname"] for each in json.loads(sensor.run("ip", "-json", "link").stdout) if each["ifname"] != "lo"
    ]
    enough = received("gw-air") + 10_000  # 2 s of the flood
    try:
        with flooding(sensor, device, "fd00:50::2"):
            until(lambda: received("gw-air") > enough, "the flood is under way")
            run("ip", "link", "set", "gw-wifi", "down")
            until(lambda: not copies_to("gw-wifi"), "no copy goes to gw-wifi", within_s)
    finally:
        run("ip", "link", "set", "gw-wifi", "up")
