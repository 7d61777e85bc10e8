# SPDX-License-Identifier: Apache-2.0
"""Links lose packets as configured if their sender is a bridge, which sends bursts."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from mininet.topo import Topo
from traffic import exchange

from lab.links.links import ShapedLink
from lab.links.shape import Shape
from lab.stage import ovs
from lab.stage.nodes import Gateway, Machine
from lab.stage.stage import Stage, raised

pytestmark = pytest.mark.timed

LEFT, RIGHT = "10.0.0.1", "10.0.0.2"
COUNT, PERCENT = 10_000, 10
SIGMAS = 4.5  # one false alarm in 150,000


class BridgedPair(Topo):  # type: ignore[misc]  # Mininet is untyped
    """left ── bridge ── right; packets reach the bridge in bursts of TBF."""

    def build(self) -> None:
        self.addHost("left", cls=Machine, addresses={"link": [f"{LEFT}/24"]})
        self.addHost("right", cls=Machine, addresses={"link": [f"{RIGHT}/24"]})
        self.addSwitch("bridge", cls=Gateway, dpid="00000000000000b1")
        near = {"intfName1": "link", "intfName2": "b-left", "port2": 1, "forward": Shape(50_000_000)}
        self.addLink("left", "bridge", cls=ShapedLink, label="near", **near)
        self.addLink("bridge", "right", cls=ShapedLink, label="far", intfName1="b-right", intfName2="link", port1=2)


@pytest.fixture(scope="module")
def net() -> Iterator[Stage]:
    with raised(BridgedPair()) as net:
        ovs.ofctl("add-flow", "bridge", "actions=normal")
        net.machine("left").run("ping", "-c", "3", "-i", "0.2", RIGHT)
        yield net


def test_packets_of_a_burst_are_lost_independently(net: Stage) -> None:
    net.uplink("far").forward.set(loss_percent=PERCENT)
    seen = exchange(net.machine("left"), net.machine("right"), RIGHT, COUNT, 200)
    # Each arrival is followed by a loss or not. A stall of the machine loses more packets, but adds one gap only.
    expected = seen.received * PERCENT / 100
    assert abs(len(seen.gaps) - expected) <= SIGMAS * math.sqrt(expected * (1 - PERCENT / 100)), seen
    assert seen.received > 0.5 * COUNT
