# SPDX-License-Identifier: Apache-2.0
"""Lanes of three links, whose shapes change for each transfer.

          ┌── near ── relay N ── far ──┐
sender N ─┤                            ├─ receiver N
          └────────── direct ──────────┘
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mininet.topo import Topo

from lab.links.links import ShapedLink
from lab.links.shape import Shape
from lab.stage.nodes import Machine
from lab.stage.stage import Stage

RATE_BPS = 100_000_000
QUEUE_BYTES = 1_200_000  # the widest window fits: only random loss drops packets
LATE_SHARE = 0.001  # of packets; fewer do not matter
LINKS = {"near": ("sender", "relay", 1), "far": ("relay", "receiver", 2), "direct": ("sender", "receiver", 3)}


class LanesTopo(Topo):  # type: ignore[misc]  # Mininet is untyped
    def build(self, lanes: int, **_options: Any) -> None:
        for lane in range(lanes):
            for role in ("sender", "relay", "receiver"):
                own = {
                    name: [f"10.{lane}.{net}.{1 if role == one else 2}/24"]
                    for name, (one, other, net) in LINKS.items()
                    if role in (one, other)
                }
                self.addHost(f"{role}{lane}", cls=Machine, addresses=own)
            for name, (one, other, _) in LINKS.items():
                # An initial delay makes the link an emulated one.
                shape = Shape(RATE_BPS, queue_bytes=QUEUE_BYTES, delay_ms=1.0)
                ends = {"intfName1": name, "intfName2": name, "forward": shape, "backward": shape}
                self.addLink(f"{one}{lane}", f"{other}{lane}", cls=ShapedLink, label=f"{name}{lane}", **ends)


@dataclass(frozen=True, slots=True)
class Lane:
    net: Stage
    number: int

    def machine(self, role: str) -> Machine:
        return self.net.machine(f"{role}{self.number}")

    def link(self, name: str) -> ShapedLink:
        return self.net.uplink(f"{name}{self.number}")

    def address(self, link: str) -> str:
        return f"10.{self.number}.{LINKS[link][2]}.2"

    def set(self, link: str, rtt_ms: float, loss: float, rate_bps: int = RATE_BPS) -> None:
        """Set the link; only packets to the receiver are lost."""
        for way, percent in ((self.link(link).forward, 100 * loss), (self.link(link).backward, 0.0)):
            way.set(delay_ms=rtt_ms / 2, loss_percent=percent, rate_bps=rate_bps)

    def stalled(self) -> str:
        found = ((name, self.link(name).lateness()) for name in LINKS)
        return "; ".join(f"on {name} {one}" for name, one in found if one.stalls > LATE_SHARE * one.packets)

    def missed(self) -> int:
        """Return packets that the links failed to read."""
        return sum(way.missed_packets for name in LINKS for way in self.link(name).counters())
