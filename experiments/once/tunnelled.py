"""What tunnels add: what their headers take, and what is lost while another outer address of theirs is followed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from experiments.laboratories.two_sites import ACTIVE, Laboratory
from experiments.once.bulk import Carried
from experiments.once.flows import BYTES, RATE_PPS, both_ways
from experiments.once.pinging import Pinged
from lab.stage.command import run
from lab.stage.failure import ExperimentFailed
from lab.traffic.numbered import Counted
from lab.traffic.streaming import till
from topologies.natted import FULL_MTU, OUTER, nat
from topologies.twin import FAR

ADDRESSES = tuple(f"{OUTER[ACTIVE]}.{last}" for last in (77, 10))  # in turns; the last is that of the beginning
PORT = f"tf-{ACTIVE}"
AROUND_S = 1.0  # for which it is watched before the address changes, and after it was followed
LOOK_EVERY_S = 0.01
WITHIN_S = 20.0
FOLLOWED_S = 3.0  # promised
FRAME_BYTES = 14  # before an IP packet
# Before TCP's payload: IPv4 and TCP, its timestamps, and MPTCP's mapping with an acknowledgement.
HEADER_BYTES = 20 + 20 + 12 + 24
TUNNEL_BYTES = FRAME_BYTES + 20 + 8 + 8  # Ethernet inside; IPv4, UDP and VXLAN


@dataclass(frozen=True, slots=True)
class Tunnelled:
    """What is measured over plain uplinks, too."""

    run: Pinged | Carried
    largest_bytes: int  # of an IP packet inside

    def __str__(self) -> str:
        return f"through tunnels of {self.largest_bytes} bytes: {self.run}"

    @property
    def stalled(self) -> str:
        return self.run.stalled


@dataclass(frozen=True, slots=True)
class Followed:
    mode: str
    took_s: float  # until the far site's kernel sends to the new address
    ways: Mapping[str, Counted]
    stalled: str

    def __str__(self) -> str:
        told = (
            f"followed after {self.took_s:.2f} s, {self.lost} of {self.sent} datagrams lost, {self.doubled} duplicated"
        )
        return f"another outer address of Wi-Fi's, {self.mode}: {told}"

    @property
    def sent(self) -> int:
        return sum(way.sent for way in self.ways.values())

    @property
    def lost(self) -> int:
        return sum(len(way.lost) for way in self.ways.values())

    @property
    def doubled(self) -> int:
        return sum(way.doubled for way in self.ways.values())


def followed(lab: Laboratory, mode: str, address: str) -> Followed:
    """The mode is in force already, and Wi-Fi's NAT has another address."""
    lab.stalled()  # from here on it counts
    with both_ways(lab, RATE_PPS, BYTES) as both:
        till(time.monotonic() + AROUND_S)
        changed = time.monotonic()
        nat(lab.net, ACTIVE).redial(f"{address}/24")
        while f"00:00:00:00:00:00 dst {address} " not in run("bridge", "fdb", "show", "dev", PORT).stdout:
            if time.monotonic() > changed + WITHIN_S:
                raise ExperimentFailed(f"{FAR}: {WITHIN_S:.0f} s after it {PORT} does not follow its peer to {address}")
            time.sleep(LOOK_EVERY_S)  # the kernel tells nobody of an entry that another process has changed
        took_s = time.monotonic() - changed
        till(time.monotonic() + AROUND_S)
    return Followed(mode, took_s, both.ways, lab.stalled())


def left_by_headers(largest_bytes: int) -> float:
    """The share of TCP's goodput over Ethernet that remains in tunnels, of a link that is full in either case."""
    inside = (largest_bytes - HEADER_BYTES) / (FRAME_BYTES + TUNNEL_BYTES + largest_bytes)
    return inside * (FRAME_BYTES + FULL_MTU) / (FULL_MTU - HEADER_BYTES)
