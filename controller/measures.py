"""What agents say of the paths that they measure, and of those who measure the paths to them."""

from __future__ import annotations

from dataclasses import dataclass

LATE_S = 10  # a window that has packets in it at any pace


@dataclass(frozen=True, slots=True)
class Answering:
    """Of those who measure the paths to a host."""

    because: str  # why nobody is answered; empty: those are who were named
    probes: int  # answered
    health_packets: int  # answered
    strangers: int  # packets of no session, or not genuine
    replays: int
    too_many: int  # more a second than are answered


@dataclass(frozen=True, slots=True)
class HealthWindow:
    """Changes are of one direction's delay, above the lowest of the last minute: the clocks differ."""

    seconds: int
    sent: int
    lost: int
    lost_there: int
    lost_back: int
    reordered: int
    rtt_least_us: int  # without the far end's own time; 0: none was answered
    rtt_median_us: int
    rtt_p95_us: int
    because: str  # why the rest is not known; empty: it is
    there_median_us: int
    there_p95_us: int
    there_jitter_us: int
    back_median_us: int
    back_p95_us: int
    back_jitter_us: int


@dataclass(frozen=True, slots=True)
class PathHealth:
    """How one path fares, by small packets. The counts begin anew with the order."""

    name: str  # the uplink's
    because: str  # why nothing is sent; empty: it is
    sent: int  # more than a second ago: by then each is answered, or lost
    lost: int
    lost_there: int  # of the lost: the rest of them is not known to be of either direction
    lost_back: int
    late: int  # answered, and so long after the shortest of the last minute that who waits for it feels it
    windows: tuple[HealthWindow, ...]

    @property
    def answers(self) -> bool:
        """The other end does, as was seen of late."""
        late = next((window for window in self.windows if window.seconds == LATE_S), None)
        return late is not None and late.sent > late.lost


@dataclass(frozen=True, slots=True)
class ProbePacket:
    """Times are nanoseconds since some moment: the first and the last by the clock of who sent the packet, the others
    by the other one's. None: not known. Without the second and the last it was lost, or its answer."""

    train: int  # from 1; 0: it was sent alone
    length: int  # of UDP payload
    sent_ns: int | None
    received_ns: int | None
    answered_ns: int | None
    heard_ns: int | None

    @property
    def came(self) -> bool:
        """Its answer did, though kernels may not have stamped it: they begin to a moment late."""
        return self.received_ns is not None or self.heard_ns is not None

    @property
    def timed(self) -> bool:
        return self.sent_ns is not None and self.received_ns is not None


@dataclass(frozen=True, slots=True)
class Probed:
    """What came of an order to probe."""

    session: int
    directive: int
    because: str  # why there is less than was ordered; empty: all was sent
    transport: str  # udp or udp6; empty: no packet was sent
    hardware: bool  # both ends' times are of their network cards
    packets: tuple[ProbePacket, ...]  # in the order of sending
