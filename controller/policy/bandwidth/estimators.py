# SPDX-License-Identifier: Apache-2.0
"""Estimators of a path's rate: from delays of packets of several lengths (paper 004), and from packet trains.

A packet that never waits takes the path's own delay plus eight times its length over the rate. So the line through the
least delayed packets has the slope 1/rate. The slope includes alpha, the hosts' own time for each byte: it is measured
once on a link of known rate, and subtracted.

    paper       the minimum of each size, and least squares through these. The slope includes the clocks' drift
    one_way     the lower edge of all packets over length and time: the same fit finds the drift
    round_trip  there and back by four timestamps, without the far end's own time: no drift. The way back always has
                one length, so it adds the same to every packet

A result is an interval. It covers the scatter of the points, and an error that no number of points reduces: alpha
varies by a part of a nanosecond with the state of a processor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from controller.policy.bandwidth.rates import UNCALIBRATED, UNSURE_S_PER_BYTE, Alpha, Rate, Unknown, rate_text

# Queues only add delay, so the least delayed packets describe the path. The minimum may be a clock error: the fit uses
# a low quantile.

Numbers = NDArray[np.float64]

ROUNDS = 200  # most rounds of a fit
NEAR = 1e-6  # of the spread: the fit ends when a round changes less
NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class LinearFit:
    """The coefficient of each column, with one standard deviation by the points' scatter."""

    coefficients: Numbers
    errors: Numbers


def least_squares(columns: Numbers, values: Numbers) -> LinearFit:
    inverse = np.linalg.pinv(columns.T @ columns)
    coefficients = inverse @ (columns.T @ values)
    left = values - columns @ coefficients
    variance = float(left @ left) / max(1, len(values) - columns.shape[1])
    return LinearFit(coefficients, np.sqrt(np.diag(inverse) * variance))


def lower_edge(columns: Numbers, values: Numbers, quantile: float) -> LinearFit:
    """Return the line that has the share `quantile` of the points below it (quantile regression).

    The check function is minimized by weighted least squares that majorize it. It is rounded off near zero, less with
    each round.
    """
    coefficients = least_squares(columns, values).coefficients
    left = values - columns @ coefficients
    spread = float(np.median(np.abs(left - np.median(left)))) or float(np.ptp(values)) or 1.0
    rounded = spread / 2
    for _ in range(ROUNDS):
        weights = 1 / (rounded + np.abs(left))
        weighted = columns * weights[:, None]
        push = weighted.T @ left + (2 * quantile - 1) * columns.sum(axis=0)
        step = np.linalg.lstsq(columns.T @ weighted, push, rcond=None)[0]
        coefficients = coefficients + step
        left = values - columns @ coefficients
        if rounded <= NEAR * spread and np.abs(columns @ step).max() < NEAR * spread:
            break
        rounded = max(rounded * 0.8, NEAR * spread)
    return LinearFit(coefficients, _errors(columns, left, quantile))


def _errors(columns: Numbers, left: Numbers, quantile: float) -> Numbers:
    """Return errors from the density of points near the line (Koenker's sandwich, Hall-Sheather bandwidth)."""
    # The line passes through as many points as it has coefficients: these do not show the density.
    left = np.delete(left, np.argsort(np.abs(left))[: columns.shape[1]])
    points = len(left)
    normal = NORMAL.inv_cdf(quantile)
    density = NORMAL.pdf(normal)
    width = points ** (-1 / 3) * 1.96 ** (2 / 3) * (1.5 * density**2 / (2 * normal**2 + 1)) ** (1 / 3)
    width = min(width, quantile / 2)
    low, high = np.quantile(left, (quantile - width, quantile + width))
    sparsity = float(high - low) / (2 * width)
    inverse = np.linalg.pinv(columns.T @ columns)
    return np.asarray(np.sqrt(np.diag(inverse) * quantile * (1 - quantile)) * sparsity)


# A clock's crystal is off by tens of millionths and wanders with its temperature: over seconds, a line with some bends.

BENDS = 3
STEP_S = 0.5e-3  # a smaller step cannot be distinguished from waiting packets
FAST = 0.01  # quantile of the delay up to which packets count as not waiting
FASTEST = 200e-6  # seconds per second; a larger drift means that the clock is being adjusted


@dataclass(frozen=True, slots=True)
class Drift:
    """Columns of a fit over time: a slope from the first packet, and its change at each bend."""

    columns: Numbers
    span_s: float

    def mean(self, coefficients: Numbers) -> float:
        """Return the mean drift in seconds per second, from the first packet to the last."""
        ends = self.columns[[0, -1]] @ coefficients
        return float(ends[1] - ends[0]) / self.span_s


def drift(sent: Numbers) -> Drift:
    """Return the columns for these times of sending, which must be ascending."""
    bends = np.linspace(sent[0], sent[-1], BENDS + 2)[:-1]
    columns = np.maximum(sent[:, None] - bends[None, :], 0)
    return Drift(columns - columns.mean(axis=0), float(sent[-1] - sent[0]))


def step_s(forth: Numbers, back: Numbers) -> float:
    """Return the step of one clock against the other, or 0.

    Setting a clock lengthens one direction and shortens the other. For packets that hardly waited, half the difference
    is the clocks' offset, apart from a part of their waiting.
    """
    known = np.isfinite(forth + back)
    if known.sum() < 2:
        return 0.0
    together, half = (forth + back)[known], ((forth - back) / 2)[known]
    # Not the minimum: a packet in flight while our clock was set back seems faster than the path.
    fast = np.quantile(together, FAST)
    apart = np.diff(half[np.abs(together - fast) <= STEP_S / 2])
    if not len(apart):
        return 0.0
    largest = float(apart[np.abs(apart).argmax()])
    return largest if abs(largest) > STEP_S else 0.0


EDGE = 0.05  # share of packets below the line, due to clock errors
SURE = 1.96  # standard deviations, for 95 %
LEAST_ERROR = 1e-15  # seconds per byte; keeps weights finite
UNSURE_PART = 0.003  # of the slope: the lower edge of packets that sometimes wait is not exactly the path's
WIDEST = 1.5  # largest ratio of an interval's ends that is still a result
FEWEST = 60  # packets
FEWEST_SIZES = 4  # packet lengths


@dataclass(frozen=True, slots=True)
class Samples:
    """Arrived packets, in the order of sending. Times are seconds of each end's own clock."""

    lengths: Numbers
    sent: Numbers
    received: Numbers
    answered: Numbers  # when the far end answered; nan: unknown
    returned: Numbers  # when the answer arrived; nan: it was lost


@dataclass(frozen=True, slots=True)
class Slope:
    """Seconds per byte, with one standard deviation."""

    s_per_byte: float
    error: float
    drift: float = 0.0  # of the far end's clock, in seconds per second


def paper(samples: Samples) -> Slope:
    delays = samples.received - samples.sent
    sizes = np.unique(samples.lengths)
    least = np.array([delays[samples.lengths == size].min() for size in sizes])
    line = least_squares(np.column_stack([np.ones_like(sizes), sizes]), least)
    return Slope(float(line.coefficients[1]), float(line.errors[1]))


def one_way(samples: Samples) -> Slope:
    over_time = drift(samples.sent)
    delays = samples.received - samples.sent
    columns = np.column_stack([np.ones_like(delays), samples.lengths, over_time.columns])
    line = lower_edge(columns, delays - delays.min(), EDGE)
    return Slope(float(line.coefficients[1]), float(line.errors[1]), over_time.mean(line.coefficients[2:]))


def round_trip(samples: Samples) -> Slope:
    delays = (samples.returned - samples.sent) - (samples.answered - samples.received)
    whole = np.isfinite(delays)
    columns = np.column_stack([np.ones_like(delays), samples.lengths])[whole]
    line = lower_edge(columns, (delays - np.nanmin(delays))[whole], EDGE)
    return Slope(float(line.coefficients[1]), float(line.errors[1]))


def rate(samples: Samples, alpha: Alpha = UNCALIBRATED) -> Rate | Unknown:
    """Return the rate by `one_way`, and by `round_trip` if answers arrived. A difference widens the interval."""
    if unfit := _why_unfit(samples):
        return Unknown(unfit)
    forth = one_way(samples)
    if abs(forth.drift) > max(FASTEST, STEP_S / (samples.sent[-1] - samples.sent[0])):
        return Unknown(f"a clock is being adjusted: {forth.drift * 1e6:+.0f} us a second against the other")
    if np.isfinite(samples.returned - samples.answered).sum() < FEWEST:
        return of_slope(forth, alpha)
    return of_slope(_together(forth, round_trip(samples)), alpha)


def of_slope(slope: Slope, alpha: Alpha = UNCALIBRATED) -> Rate | Unknown:
    s_per_byte = slope.s_per_byte - alpha.s_per_byte
    unsure = SURE * math.hypot(slope.error, alpha.error, UNSURE_PART / 2 * slope.s_per_byte)
    least, most = s_per_byte - unsure, s_per_byte + unsure
    if not least > 0:  # also if it is NaN
        return Unknown(f"longer packets do not take longer ({s_per_byte * 1e9:.2f} +- {unsure * 1e9:.2f} ns a byte)")
    if most > WIDEST * least:
        return Unknown(f"the rate may be {rate_text(8 / most)} to {rate_text(8 / least)}")
    return Rate(8 / s_per_byte, 8 / most, 8 / least)


def calibrated(slope: Slope, link_bps: float) -> Alpha:
    """Return alpha, measured over a link of known rate between the same two hosts."""
    return Alpha(slope.s_per_byte - 8 / link_bps, math.hypot(slope.error, UNSURE_S_PER_BYTE / SURE))


def _together(forth: Slope, back: Slope) -> Slope:
    """Return the weighted mean. Both use the same packets, so the error is not below the smaller one."""
    weights = np.maximum([forth.error, back.error], LEAST_ERROR) ** -2.0
    both = float(weights @ [forth.s_per_byte, back.s_per_byte] / weights.sum())
    apart = max(abs(forth.s_per_byte - both), abs(back.s_per_byte - both))
    return Slope(both, max(min(forth.error, back.error), apart / SURE), forth.drift)


def _why_unfit(samples: Samples) -> str:
    """Return why no line can be fitted to these packets, or ""."""
    if len(samples.sent) < FEWEST:
        return f"{len(samples.sent)} packets arrived, expected at least {FEWEST}"
    if len(np.unique(samples.lengths)) < FEWEST_SIZES:
        return f"packets of {len(np.unique(samples.lengths))} lengths arrived, expected at least {FEWEST_SIZES}"
    if not np.isfinite(samples.sent + samples.received).all():
        return "the time of sending or arrival of some packets is not known"
    if not samples.sent[-1] - samples.sent[0] > 0:
        return "all packets were sent at the same time, or the clock went back"
    stepped_s = step_s(samples.received - samples.sent, samples.returned - samples.answered)
    if stepped_s:
        return f"a clock was set during the probe, by {stepped_s * 1e3:+.1f} ms against the other"
    return ""


# Trains are packets sent at once, which the narrowest link spaces out. A shaper may let a burst pass at full speed
# first, so only a train's end counts. Other packets spread a train, so the median counts.

FEWEST_PACKETS = 8  # in the end of a train
FEWEST_TRAINS = 6  # with five, minimum and maximum contain the median in 94 % of cases
END = 0.5  # share of a train that counts
TRAINS_UNSURE_PART = 0.01  # uncounted headers, bursts, interrupts: more trains do not reduce it
APART_S = 20e-6  # closer packets are spaced by the hosts' interrupts and reads, not by the path


def of_train(arrived: Numbers, on_the_wire: Numbers) -> float | None:
    """Return bit/s, or None with too little data. `on_the_wire`: bytes of each packet."""
    end = slice(int(len(arrived) * (1 - END)), None)
    times, lengths = arrived[end], on_the_wire[end]
    if len(times) < FEWEST_PACKETS or times[-1] <= times[0]:
        return None
    sent = np.concatenate([[0], np.cumsum(lengths[1:])])
    slope = float(least_squares(np.column_stack([np.ones_like(sent), sent]), times - times[0]).coefficients[1])
    return 8 / slope if slope > 0 else None


def _longest(trains: Sequence[tuple[Numbers, Numbers]]) -> float:
    return max(float(on_the_wire.max()) for _, on_the_wire in trains if len(on_the_wire))


def rate_of_trains(trains: Sequence[tuple[Numbers, Numbers]]) -> Rate | Unknown:
    """Return the median rate. Its 95 % interval is distribution-free, from the order of the trains' rates."""
    rates = np.sort([bps for each in trains if (bps := of_train(*each))])
    if len(rates) < FEWEST_TRAINS:
        return Unknown(f"{len(rates)} trains of {len(trains)} arrived, expected at least {FEWEST_TRAINS}")
    if 8 * _longest(trains) / np.median(rates) < APART_S:
        return Unknown(f"trains arrive too fast for these hosts: at about {rate_text(float(np.median(rates)))}")
    reach = SURE * np.sqrt(len(rates)) / 2
    low = max(0, int(np.floor(len(rates) / 2 - reach)))
    high = min(len(rates) - 1, int(np.ceil(len(rates) / 2 + reach)))
    least, most = float(rates[low]) * (1 - TRAINS_UNSURE_PART), float(rates[high]) * (1 + TRAINS_UNSURE_PART)
    return Rate(float(np.median(rates)), least, most)
