# SPDX-License-Identifier: Apache-2.0
"""Links with rate, queue, loss and delay per direction, changeable while traffic flows.

    sender ── loss ── queue of `queue_bytes`, emptied at `rate_bps` ── delay ──► receiver

Delay, jitter, bursts or a shared channel need an emulator (emulator.py). The kernel shapes other links (shaper.py).

The kernel's queue is at the sender's port, as with Wi-Fi. It counts against the sender's socket, or one budget for all
ports of a bridge (gateway/sending.py). The emulator's queue is behind a veth, as with a modem, and counts against none.
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


class LinkDirection(Protocol):
    """One direction of a link."""

    shape: Shape

    def set(self, **changes: Any) -> None: ...


class ShapedLink(Link):  # type: ignore[misc]  # Mininet is untyped
    """A link: `forward` shapes what leaves node1, `backward` what leaves node2; messages name `label`.

    Setting an interface down cuts it off. Then the other end of a veth pair loses its carrier; that of an emulated link
    keeps it, like a device behind an access point.

    With `offloads` a sender's segments cross this link in frames of up to 64 kB. The next link takes them apart, and
    its loss meets whole frames. An Open vSwitch with a userspace datapath cannot read them.
    """

    forward: LinkDirection
    backward: LinkDirection

    def __init__(
        self,
        node1: Any,
        node2: Any,
        forward: Shape = UNSHAPED,
        backward: Shape = UNSHAPED,
        label: str = "",
        offloads: bool = False,
        **options: Any,
    ) -> None:
        self.label = label
        emulated = forward.wants_emulator or backward.wants_emulator
        self._emulator = Emulator(label or f"{node1}-{node2}") if emulated else None
        super().__init__(node1, node2, **options)
        for end, interface in enumerate((self.intf1, self.intf2)):
            if not offloads:
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
        return self._carrier().counters()

    def lateness(self) -> Lateness:
        return self._carrier().lateness()

    def _carrier(self) -> Emulator:
        if self._emulator is None:
            raise TypeError(
                f"link {self.label}: the kernel shapes it; expected a link with delay, jitter, bursts or a shared "
                "channel"
            )
        return self._emulator


def _offloads_off(interface: Intf) -> None:
    """Avoid incomplete checksums, which a userspace datapath reads, and loss of whole bundles of segments."""
    switches = [word for offload in OFFLOADS for word in (offload, "off")]
    interface.node.run("ethtool", "-K", interface.name, *switches)


def in_order(run: Runner, device: str, end: int) -> None:
    """Receive this device's packets on one processor, another one at either end.

    Otherwise packets wait on the sender's processor, and overtake one another when the sender (an Open vSwitch thread)
    changes processors: measured, 1 % of a download's segments.
    """
    mounted = "/mnt"  # private to this program; sysfs shows the namespace of its mount
    queue = f"{mounted}/class/net/{device}/queues/rx-0/rps_cpus"
    cpu = end % (os.cpu_count() or 1)
    words = f"mount -t sysfs sysfs {mounted} && echo {1 << cpu:x} > {queue}"
    run("unshare", "--mount", "sh", "-c", words)
