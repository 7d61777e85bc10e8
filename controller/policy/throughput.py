"""What an uplink carries for one terminal, as reports show it: what it delivers, and the most that it can.

A sender whose application has little to send shows nothing of the path. One that has filled its congestion window is
limited by the path: what it delivers then is what the path carries, with these losses and this congestion control.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

LATELY_S = 3.5
LIMITED_REPORTS = 3
LIMITED_FOR_S = 2.0  # a sender that begins has filled a small window for less
KNOWN_FOR_S = 600.0
MOST_KEPT = 64  # reports of LATELY_S, however many agents tell of the uplink


@dataclass(frozen=True, slots=True)
class Delivered:
    """What one report says."""

    at: float
    bps: float
    limited: bool  # by the path


@dataclass(frozen=True, slots=True)
class Throughput:
    reports: tuple[Delivered, ...] = ()
    limit_bps: float = 0.0
    limit_at: float | None = None  # None: never measured
    written_bps: float | None = None  # in gateway.yaml

    def delivered_bps(self, now: float) -> float:
        """The rate of the fastest report of late."""
        return max((each.bps for each in self.reports if now - each.at < LATELY_S), default=0.0)

    def carries_bps(self, now: float) -> float | None:
        """The most that it can carry, as seen lately, else as written; None: neither is known."""
        seen = self.limit_at is not None and now - self.limit_at < KNOWN_FOR_S
        return self.limit_bps if seen else self.written_bps


UNMEASURED = Throughput()


def reported(throughput: Throughput, bps: float, limited: bool, now: float) -> Throughput:
    lately = [each for each in throughput.reports if now - each.at < LATELY_S]
    reports = (*lately, Delivered(now, bps, limited))[-MOST_KEPT:]
    throughput = replace(throughput, reports=reports)
    at_limit = [each for each in reports if each.limited]
    if len(at_limit) < LIMITED_REPORTS or at_limit[-1].at - at_limit[0].at < LIMITED_FOR_S:
        return throughput
    return replace(throughput, limit_bps=max(each.bps for each in at_limit), limit_at=now)
