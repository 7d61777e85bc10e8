# SPDX-License-Identifier: Apache-2.0
"""The throughput of TCP on one leg of a relayed path.

Paper 001's equations (1) and (2) give the limit by window and rate without loss. The limit by loss is that of CUBIC
(RFC 9438, 5.1), the default of most hosts: the equation of Mathis et al. (Reno) for small windows or short round
trips, and more beyond. The equations ignore the receiver's window, with which a sender recovers sooner from a loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cbrt, inf, pow, sqrt

from controller.policy.bandwidth.rates import rate_text

WINDOW_BYTES = 3 << 20  # Linux's default limit of the receive buffer
MTU_BYTES, SEGMENT_BYTES = 1500, 1448
BETA, CUBIC_C = 0.7, 0.4  # RFC 9438: the share of the window that a loss leaves, and the factor of its growth
RENO_ALPHA = 3 * (1 - BETA) / (1 + BETA)  # segments per round trip that make CUBIC as fast as Reno
RENO_MEAN, CUBIC_MEAN = (1 + BETA) / 2, (3 + BETA) / 4  # mean share of the full window while it grows


@dataclass(frozen=True, slots=True)
class LegRouter:
    """A router that traceroute found, and its RTT from the beginning of the leg."""

    name: str
    rtt_ms: float


@dataclass(frozen=True, slots=True)
class Leg:
    """One part of a path. None: not measured. Loss and bandwidth are for the direction of the data."""

    rtt_ms: float
    loss: float | None = None  # of segments, from 0 to 1
    bandwidth_bps: float | None = None
    age_s: float = 0.0
    routers: tuple[LegRouter, ...] = ()  # in order, without the end of the leg


@dataclass(frozen=True, slots=True)
class LegThroughput:
    bps: float
    reason: str


def throughput(leg: Leg, window_bytes: int = WINDOW_BYTES) -> LegThroughput:
    """Return the throughput of one connection after slow start."""
    bps = by_window(leg, window_bytes)
    reason = f"a window of {window_bytes / 1024:.4g} KiB over {leg.rtt_ms:.4g} ms"
    if leg.loss:
        bps = min(bps, by_loss(leg.loss, leg.rtt_ms, window_bytes))
        reason += f", {100 * leg.loss:.2g} % lost"
    if leg.bandwidth_bps is not None and bps >= leg.bandwidth_bps:
        return LegThroughput(leg.bandwidth_bps, f"the link's {rate_text(leg.bandwidth_bps)}")
    return LegThroughput(bps, reason)


def by_window(leg: Leg, window_bytes: int) -> float:
    """Return the limit by window and rate, equations (1) and (2)."""
    window_bits, rtt_s = 8 * window_bytes, leg.rtt_ms / 1e3
    rate_bps = leg.bandwidth_bps
    if rate_bps is None:
        return window_bits / rtt_s if rtt_s > 0 else inf
    if rate_bps <= 0:
        return 0.0
    if window_bits / rate_bps <= rtt_s:
        return window_bits / (rtt_s + 8 * MTU_BYTES / rate_bps)
    return rate_bps


def by_loss(loss: float, rtt_ms: float, window_bytes: int) -> float:
    """Return the mean of a window that grows as Reno's or CUBIC's, whichever is faster."""
    rtt_s, most = rtt_ms / 1e3, window_bytes / SEGMENT_BYTES
    if rtt_s <= 0:
        return inf
    reno = _between_losses(loss, most, (1 - BETA) * most / RENO_ALPHA, RENO_MEAN, sqrt(3 / 2 / loss))
    cubic_rounds = cbrt((1 - BETA) * most / CUBIC_C) / rtt_s
    cubic_alone = pow(CUBIC_C * CUBIC_MEAN / (1 - BETA), 1 / 4) * pow(rtt_s / loss, 3 / 4)
    cubic = _between_losses(loss, most, cubic_rounds, CUBIC_MEAN, cubic_alone)
    return 8 * SEGMENT_BYTES * max(reno, cubic) / rtt_s


def _between_losses(loss: float, most: float, rounds: float, mean: float, alone: float) -> float:
    """Return segments per round trip. A window is full again after `rounds`; `alone` is the mean if it never is."""
    growing = rounds * mean * most
    if growing >= 1 / loss:
        return alone
    return 1 / loss / (rounds + (1 / loss - growing) / most)
