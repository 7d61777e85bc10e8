"""One leg of a way, from one place to another, as it was measured, and how fast TCP can be on it.

Paper 001's equations (1) and (2) tell what a window and a rate allow, where nothing is lost. What losses allow is told
by RFC 9438 (section 5.1), because cubic is what hosts send with that nobody has set otherwise: it is as fast as Reno,
which is the equation of Mathis et al., where windows are small or ways short, and faster beyond.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, pow, sqrt

from controller.policy.rates import said

WINDOW_BYTES = 3 << 20  # what Linux's receive buffer grows to; hosts that set none have it
MTU_BYTES, SEGMENT_BYTES = 1500, 1448
RENO_C = sqrt(3 / 2)  # of Mathis et al., as RFC 9438 has it
CUBIC_C, CUBIC_BETA = 0.4, 0.7  # of RFC 9438
CUBIC_FACTOR = pow(CUBIC_C * (3 + CUBIC_BETA) / (4 * (1 - CUBIC_BETA)), 1 / 4)


@dataclass(frozen=True, slots=True)
class Router:
    """One that traceroute has told of, and its RTT from where the leg begins."""

    name: str
    rtt_ms: float


@dataclass(frozen=True, slots=True)
class Leg:
    """None is what was not measured. Loss and bandwidth are those of the direction in which the data goes."""

    rtt_ms: float
    loss: float | None = None  # of segments, from 0 to 1
    bandwidth_bps: float | None = None
    age_s: float = 0.0
    routers: tuple[Router, ...] = ()  # on the way to its end, in order, without the end itself


@dataclass(frozen=True, slots=True)
class Throughput:
    bps: float
    because: str


def throughput(leg: Leg, window_bytes: int = WINDOW_BYTES) -> Throughput:
    """What one connection gets, once it has begun."""
    over = f"over {leg.rtt_ms:.4g} ms"
    found: list[Throughput] = []
    if leg.bandwidth_bps is not None:  # the first of equals: where the window is wide enough, this is the reason
        found.append(Throughput(leg.bandwidth_bps, f"the {said(leg.bandwidth_bps)} that are there"))
    if leg.loss:
        found.append(Throughput(by_loss(leg.loss, leg.rtt_ms), f"{100 * leg.loss:.2g} % lost {over}"))
    found.append(Throughput(by_window(leg, window_bytes), f"a window of {window_bytes / 1024:.4g} KiB {over}"))
    return min(found, key=lambda each: each.bps)


def by_window(leg: Leg, window_bytes: int) -> float:
    """Equations (1) and (2)."""
    window_bits, rtt_s = 8 * window_bytes, leg.rtt_ms / 1e3
    rate_bps = leg.bandwidth_bps
    if rate_bps is None:
        return window_bits / rtt_s if rtt_s > 0 else inf
    if rate_bps <= 0:
        return 0.0
    if window_bits / rate_bps <= rtt_s:
        return window_bits / (rtt_s + 8 * MTU_BYTES / rate_bps)
    return rate_bps


def by_loss(loss: float, rtt_ms: float) -> float:
    rtt_s = rtt_ms / 1e3
    if rtt_s <= 0:
        return inf
    segments = max(RENO_C / sqrt(loss), CUBIC_FACTOR * pow(rtt_s / loss, 3 / 4))
    return 8 * SEGMENT_BYTES * segments / rtt_s
