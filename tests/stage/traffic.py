# SPDX-License-Identifier: Apache-2.0
"""Traffic from one machine of a stage to another, and its arrivals."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mininet.topo import Topo

from lab.links.links import ShapedLink
from lab.links.shape import Shape
from lab.stage.nodes import Machine

PROGRAM = [sys.executable, str(Path(__file__).with_name("datagrams.py"))]
SMALL_BUFFER = 16_384  # the sender waits for the shaper instead of overfilling its queue
LARGE_BUFFER = 16 << 20  # the sender never waits
HEADERS_BYTES = 8 + 20 + 14
LEFT, RIGHT = "10.0.0.1", "10.0.0.2"
SIGMAS = 4.5  # one false alarm in 150,000


class LinkPair(Topo):  # type: ignore[misc]  # Mininet is untyped
    """left ── right"""

    def build(self, **shape: Shape) -> None:
        self.addHost("left", cls=Machine, addresses={"link": [f"{LEFT}/24"]})
        self.addHost("right", cls=Machine, addresses={"link": [f"{RIGHT}/24"]})
        self.addLink("left", "right", cls=ShapedLink, intfName1="link", intfName2="link", label="pair", **shape)


def within_binomial(lost: int, count: int, percent: float) -> bool:
    expected = count * percent / 100
    return abs(lost - expected) <= SIGMAS * math.sqrt(expected * (1 - percent / 100)) + 1


@dataclass(frozen=True)
class ReceivedPackets:
    received: int
    in_order: bool
    wire_bps: float  # with headers down to Ethernet's
    longest_ms: float  # from the sender's call to the receiver's
    shortest_ms: float
    gaps: tuple[int, ...]  # lengths of the runs of missing packets


def exchange(
    sender: Machine,
    receiver: Machine,
    address: str,
    count: int,
    payload: int,
    buffer: int = SMALL_BUFFER,
    during: Callable[[], None] | None = None,
    payload_bps: int = 0,
) -> ReceivedPackets:
    words = [*PROGRAM, "send", address, str(count), str(payload), str(buffer), str(payload_bps)]
    with receiver.popen([*PROGRAM, "receive"], stdin=subprocess.PIPE, stderr=None, text=True) as ear:
        assert ear.stdout is not None
        assert ear.stdout.readline() == "ready\n"
        with sender.popen(words, stdout=None, stderr=None) as mouth:
            while during is not None and mouth.poll() is None:
                during()
        assert mouth.returncode == 0
        told = json.loads(ear.communicate(f"{count}\n")[0])
    wire_bits = (told["received"] - 1) * (payload + HEADERS_BYTES) * 8
    rate = wire_bits / told["seconds"] if told["received"] > 1 else 0.0
    longest_ms, shortest_ms = told["longest_s"] * 1000, told["shortest_s"] * 1000
    return ReceivedPackets(told["received"], told["in_order"], rate, longest_ms, shortest_ms, tuple(told["gaps"]))
