"""The rate of a path, from how long packets of different lengths took over it (paper 004).

A packet that waits for nothing takes the path's own delay, and eight times its length over the rate: the line through
those that were delayed least has 1/rate for its slope. What both hosts take for each byte (alpha) is in it, too; it is
measured once against a link of known rate, and taken off.

    paper       the least of each size, and least squares through these. The clocks' drift is in the slope
    one_way     the lower edge of all packets, over length and time: the drift is found by the same fit
    round_trip  there and back by four timestamps, without the far end's own time: no drift at all, and the way back,
                which always carries the same length, adds to every packet alike

An answer is an interval. It has the points' scatter in it, and what no number of points makes less: that alpha changes
by a part of a nanosecond with a processor's mood.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from controller.policy.clocks import FASTEST, STEP_S, drift, step_s
from controller.policy.lines import Numbers, least_squares, lower_edge
from controller.policy.rates import CALIBRATED as CALIBRATED
from controller.policy.rates import UNCALIBRATED as UNCALIBRATED
from controller.policy.rates import UNSURE_S_PER_BYTE
from controller.policy.rates import Alpha as Alpha
from controller.policy.rates import Rate as Rate
from controller.policy.rates import Unknown as Unknown
from controller.policy.rates import said as said

EDGE = 0.05  # so many of the packets are faster than the line: clock errors, not the path
SURE = 1.96  # standard deviations, for 95 %
LEAST_ERROR = 1e-15
UNSURE_PART = 0.003  # of the slope: the edge of what had to wait now and then is not quite the path's
WIDEST = 1.5  # the upper end of an interval that tells something is no more than so many times its lower one
FEWEST = 60
FEWEST_SIZES = 4


@dataclass(frozen=True, slots=True)
class Samples:
    """Packets that came, in the order in which they were sent; times in seconds, each of the clock of its own end."""

    lengths: Numbers
    sent: Numbers
    received: Numbers
    answered: Numbers  # by the far end; nan: not known
    heard: Numbers  # the answer; nan: it was lost


@dataclass(frozen=True, slots=True)
class Slope:
    """Seconds a byte, with one standard deviation."""

    s_per_byte: float
    error: float
    drift: float = 0.0  # of the far end's clock: seconds a second


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
    delays = (samples.heard - samples.sent) - (samples.answered - samples.received)
    whole = np.isfinite(delays)
    columns = np.column_stack([np.ones_like(delays), samples.lengths])[whole]
    line = lower_edge(columns, (delays - np.nanmin(delays))[whole], EDGE)
    return Slope(float(line.coefficients[1]), float(line.errors[1]))


def rate(samples: Samples, alpha: Alpha = UNCALIBRATED) -> Rate | Unknown:
    """By both ways of ours, where packets came back; the interval has room for what they differ by."""
    if unfit := _unfit(samples):
        return Unknown(unfit)
    forth = one_way(samples)
    if abs(forth.drift) > max(FASTEST, STEP_S / (samples.sent[-1] - samples.sent[0])):
        return Unknown(f"a clock is being set: {forth.drift * 1e6:+.0f} us a second against the other")
    if np.isfinite(samples.heard - samples.answered).sum() < FEWEST:
        return of_slope(forth, alpha)
    return of_slope(_together(forth, round_trip(samples)), alpha)


def of_slope(slope: Slope, alpha: Alpha = UNCALIBRATED) -> Rate | Unknown:
    s_per_byte = slope.s_per_byte - alpha.s_per_byte
    unsure = SURE * math.hypot(slope.error, alpha.error, UNSURE_PART / 2 * slope.s_per_byte)
    least, most = s_per_byte - unsure, s_per_byte + unsure
    if not least > 0:  # nor where it is no number
        return Unknown(f"longer packets do not take longer ({s_per_byte * 1e9:.2f} +- {unsure * 1e9:.2f} ns a byte)")
    if most > WIDEST * least:
        return Unknown(f"it may be {said(8 / most)} to {said(8 / least)}")
    return Rate(8 / s_per_byte, 8 / most, 8 / least)


def calibrated(slope: Slope, link_bps: float) -> Alpha:
    """By a link of known rate between the same two hosts."""
    return Alpha(slope.s_per_byte - 8 / link_bps, math.hypot(slope.error, UNSURE_S_PER_BYTE / SURE))


def _together(forth: Slope, back: Slope) -> Slope:
    """Each by its own certainty; no surer than the surer one, for both have the same packets, nor than they agree."""
    weights = np.maximum([forth.error, back.error], LEAST_ERROR) ** -2.0
    both = float(weights @ [forth.s_per_byte, back.s_per_byte] / weights.sum())
    apart = max(abs(forth.s_per_byte - both), abs(back.s_per_byte - both))
    return Slope(both, max(min(forth.error, back.error), apart / SURE), forth.drift)


def _unfit(samples: Samples) -> str:
    if len(samples.sent) < FEWEST:
        return f"{len(samples.sent)} packets came, expected {FEWEST} at least"
    if len(np.unique(samples.lengths)) < FEWEST_SIZES:
        return f"packets of {len(np.unique(samples.lengths))} lengths came, expected {FEWEST_SIZES} at least"
    if not np.isfinite(samples.sent + samples.received).all():
        return "of some packets it is not known when they were sent, or when they came"
    if not samples.sent[-1] - samples.sent[0] > 0:
        return "the packets were all sent at one time, or the clock went back"
    stepped_s = step_s(samples.received - samples.sent, samples.heard - samples.answered)
    if stepped_s:
        return f"a clock was set meanwhile, by {stepped_s * 1e3:+.1f} ms against the other"
    return ""
