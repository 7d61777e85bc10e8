# SPDX-License-Identifier: Apache-2.0
"""Links with a rate, a queue, loss and delay. Each direction has its own, and can change while traffic flows.

    sender ── loss ── queue of `queue_bytes`, emptied at `rate_bps` ── delay ──► receiver

A link that is raised with delay, jitter, bursts or a shared channel has an emulator of its own (emulator.py). Any other
is a plain veth pair that the kernel shapes (shaper.py).

The kernel's queue is at the sender's port, as a Wi-Fi interface's is: waiting bytes count against the sender's socket,
and for a bridge's ports against one budget for all (gateway/sending.py). The emulator's queue is behind a veth, like a
modem's behind an Ethernet port, and counts against no socket.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

from mininet.link import Intf, Link

from lab.links.emulator import FAR, NEAR, Counters, EmulatedWay, Emulator, Lateness
from lab.links.shape import UNSHAPED, Bursts, Shape
from lab.links.shaper import Runner, Shaper

__all__ = ["UNSHAPED", "Bursts", "Counters", "Lateness", "Shape", "ShapedLink"]

OFFLOADS = ("tso", "gso", "gro", "tx", "rx")


class Way(Protocol):
    """One direction of a link, whoever shapes it."""

    shape: Shape

    def set(self, **changes: Any) -> None: ...


class ShapedLink(Link):  # type: ignore[misc]  # Mininet is untyped
    """`forward` shapes what leaves node1, `backward` what leaves node2; `label` names the link for people.

    Whoever sets an interface of it down cuts that interface off. The other end of a veth pair then has no carrier;
    that of an emulated link keeps it, like what stands behind an access point.
    """

    forward: Way
    backward: Way

    def __init__(
        self,
        node1: Any,
        node2: Any,
        forward: Shape = UNSHAPED,
        backward: Shape = UNSHAPED,
        label: str = "",
        **options: Any,
    ) -> None:
        self.label = label
        emulated = forward.wants_emulator or backward.wants_emulator
        self._emulator = Emulator(label or f"{node1}-{node2}") if emulated else None
        super().__init__(node1, node2, **options)
        for end, interface in enumerate((self.intf1, self.intf2)):
            _offloads_off(interface)
            in_order(interface.node.run, interface.name, end)
        if self._emulator is None:
            self.forward = Shaper(node1.run, self.intf1.name, forward)
            self.backward = Shaper(node2.run, self.intf2.name, backward)
        else:
            for end, device in enumerate((NEAR, FAR)):
                in_order(self._emulator.run, device, end)
            self.forward = EmulatedWay(self._emulator, "forward", forward)
            self.backward = EmulatedWay(self._emulator, "backward", backward)
            self._emulator.open()

    def makeIntfPair(self, *arguments: Any, **options: Any) -> None:  # Mininet's name
        if self._emulator is None:
            super().makeIntfPair(*arguments, **options)
            return
        name1, name2, mac1, mac2, node1, node2 = arguments
        for node, name, mac, end in ((node1, name1, mac1, NEAR), (node2, name2, mac2, FAR)):
            address = () if mac is None else ("address", mac)
            peer = ("peer", "name", end, "netns", str(self._emulator.pid))
            node.run("ip", "link", "add", "name", name, *address, "type", "veth", *peer)

    def delete(self) -> None:
        for way in (self.forward, self.backward):
            if isinstance(way, Shaper):
                way.end()
        super().delete()
        if self._emulator is not None:
            self._emulator.stop()

    def counters(self) -> tuple[Counters, Counters]:
        """Of an emulated link, forward and backward, since it was raised."""
        return self._carrier().counters()

    def lateness(self) -> Lateness:
        """Of an emulated link, since this was last asked."""
        return self._carrier().lateness()

    def _carrier(self) -> Emulator:
        if self._emulator is None:
            raise TypeError(
                f"link {self.label}: the kernel shapes it; expected one raised with delay, jitter, bursts or a shared "
                "channel"
            )
        return self._emulator


def _offloads_off(interface: Intf) -> None:
    """A userspace datapath would read half-made checksums, and loss would take whole bundles of segments at once."""
    switches = [word for offload in OFFLOADS for word in (offload, "off")]
    interface.node.run("ethtool", "-K", interface.name, *switches)


def in_order(run: Runner, device: str, end: int) -> None:
    """Let one processor receive all that comes in here; at the two ends of a link not the same.

    Otherwise a veth's packets wait on the processor of whoever sent them, and overtake one another whenever
    the sender (a thread of Open vSwitch) moves: measured, 1 % of a download's segments.
    """
    mounted = "/mnt"  # of the program alone: sysfs shows the namespace that it was mounted in
    queue = f"{mounted}/class/net/{device}/queues/rx-0/rps_cpus"
    cpu = end % (os.cpu_count() or 1)
    words = f"mount -t sysfs sysfs {mounted} && echo {1 << cpu:x} > {queue}"
    run("unshare", "--mount", "sh", "-c", words)
