# SPDX-License-Identifier: Apache-2.0
"""A measured rate with its uncertainty, and the fusion of several into one.

    one packet   the wire's own rate, whatever the other traffic. Over several links in a row it is 1/sum(1/rate), which
                 no sender gets. It misses a shaper that delays no single packet
    trains       the rate that passes, also behind a shaper; less while there is other traffic
    delivery     the rate that some flow got: a lower bound

Where the first two agree, both count, weighted by their certainty. Where they differ, the lower one counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

UNSURE_S_PER_BYTE = 0.3e-9  # alpha's variation between runs


@dataclass(frozen=True, slots=True)
class Alpha:
    """The two hosts' own time per byte, besides the link's."""

    s_per_byte: float = 0.0
    error: float = UNSURE_S_PER_BYTE


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate with its 95 % interval."""

    bps: float
    least_bps: float
    most_bps: float


@dataclass(frozen=True, slots=True)
class Unknown:
    reason: str


CALIBRATED = Alpha()
UNCALIBRATED = Alpha(error=1.1e-9)  # alpha is not negative; 0.1 to 2 ns per byte on present processors


def rate_text(bps: float) -> str:
    mbps = bps / 1e6
    return f"{mbps:.0f} Mbit/s" if mbps >= 1000 else f"{mbps:.4g} Mbit/s"


KEPT_S = 3600.0  # default age limit of a measurement; longer for rarer measurements
DELIVERED_WITHIN_S = 60.0  # age limit of a delivery


class Method(StrEnum):
    ONE_PACKET = "one packet"
    SEVERAL_LINKS = "one packet over several links"
    TRAINS = "trains"
    DELIVERY = "delivery"


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    method: Method
    rate: Rate
    at: float


@dataclass(frozen=True, slots=True)
class FusedRate:
    """The fusion of several measurements. `most_bps` is infinite without an upper bound."""

    bps: float
    least_bps: float
    most_bps: float
    at: float  # time of the oldest measurement in it
    methods: tuple[Method, ...]

    def age_s(self, now: float) -> float:
        return max(0.0, now - self.at)


def fused(measured: Iterable[MeasuredRate], now: float, kept_s: float = KEPT_S) -> FusedRate | Unknown:
    newest = _newest(measured, now, kept_s)
    told = [one for method in (Method.ONE_PACKET, Method.TRAINS) if (one := newest.get(method))]
    delivered = newest.get(Method.DELIVERY)
    if told:
        figure = _together(told)
        return _at_least(figure, delivered) if delivered else figure
    if delivered:
        rate = delivered.rate
        return FusedRate(rate.bps, rate.least_bps, math.inf, delivered.at, (Method.DELIVERY,))
    if Method.SEVERAL_LINKS in newest:
        return Unknown("single packets measure several links in a row together, and no trains were sent")
    last = "the last hour" if kept_s == KEPT_S else f"the last {kept_s / 3600:.0f} hours"
    return Unknown(f"nothing was measured within {last}")


def _newest(measured: Iterable[MeasuredRate], now: float, kept_s: float) -> dict[Method, MeasuredRate]:
    newest: dict[Method, MeasuredRate] = {}
    for one in measured:
        counts_s = DELIVERED_WITHIN_S if one.method is Method.DELIVERY else kept_s
        if one.at <= now and now - one.at <= counts_s and (one.method not in newest or newest[one.method].at <= one.at):
            newest[one.method] = one
    return newest


def _together(rates: list[MeasuredRate]) -> FusedRate:
    lower, higher = rates[0], rates[-1]
    if lower.rate.bps > higher.rate.bps:
        lower, higher = higher, lower
    if lower is higher or lower.rate.most_bps < higher.rate.least_bps:
        return FusedRate(lower.rate.bps, lower.rate.least_bps, lower.rate.most_bps, lower.at, (lower.method,))
    weights = [1 / max(_width(one.rate), 1e-6) ** 2 for one in rates]
    logarithm = sum(weight * math.log(one.rate.bps) for weight, one in zip(weights, rates, strict=True)) / sum(weights)
    bps, half = math.exp(logarithm), math.exp(sum(weights) ** -0.5 / 2)
    return FusedRate(bps, bps / half, bps * half, min(one.at for one in rates), tuple(one.method for one in rates))


def _width(rate: Rate) -> float:
    return math.log(rate.most_bps / rate.least_bps)


def _at_least(figure: FusedRate, delivered: MeasuredRate) -> FusedRate:
    """Return the delivered rate if it exceeds the figure: a flow has just got it."""
    got = delivered.rate
    if got.least_bps <= figure.most_bps:
        return figure
    return FusedRate(got.bps, got.least_bps, math.inf, delivered.at, (Method.DELIVERY,))
