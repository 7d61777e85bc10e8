"""From a probe's packets to rates. It may take a second, so it is not done in the core's thread: what is to be
estimated goes out as an effect, and what was comes back as an event.

No packets are so odd that this fails: what makes no rate is not known, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np

from controller.measuring.estimates import Estimate, Estimated
from controller.policy import trains
from controller.policy.bandwidth import (
    CALIBRATED,
    SURE,
    UNCALIBRATED,
    UNSURE_PART,
    Alpha,
    Samples,
    Unknown,
    calibrated,
    one_way,
    rate,
    said,
)
from controller.probed import Unreadable, of_packets

T = TypeVar("T")

MOST_S_PER_BYTE = 20e-9  # of hosts; more is another link, or another rate than was said. Ours take 0.1 to 2


def estimated(order: Estimate) -> Estimated:
    try:
        probed = of_packets(order.probed.packets, order.probed.transport, order.down)
    except Unreadable as unreadable:
        nothing = Unknown(str(unreadable))
        return Estimated(order, nothing, nothing, nothing if order.link_bps else None)
    with np.errstate(all="ignore"):  # what comes of it is looked at
        alpha = _anyhow(partial(_alpha, probed.samples, order.link_bps)) if order.link_bps else None
        known = alpha if isinstance(alpha, Alpha) else order.alpha or UNCALIBRATED
        one_packet = _anyhow(partial(rate, probed.samples, known))
        by_trains = _anyhow(partial(trains.rate, probed.trains))
    return Estimated(order, one_packet, by_trains, alpha, probed.sent, probed.lost, probed.reordered, probed.mtu_bytes)


def _alpha(samples: Samples, link_bps: float) -> Alpha | Unknown:
    found = rate(samples, CALIBRATED)
    if isinstance(found, Unknown):
        return found
    alpha = calibrated(one_way(samples), link_bps)
    unsure = SURE * alpha.error + UNSURE_PART * 8 / link_bps
    if -unsure <= alpha.s_per_byte <= MOST_S_PER_BYTE + unsure:
        return alpha
    took = f"{alpha.s_per_byte * 1e9:.1f} ns a byte, expected 0 to {MOST_S_PER_BYTE * 1e9:.0f}"
    return Unknown(f"of a link of {said(link_bps)} these hosts would take {took}: they are not calibrated by it")


def _anyhow(estimate: Callable[[], T]) -> T | Unknown:
    try:
        return estimate()
    except (ArithmeticError, ValueError, IndexError) as error:  # np.linalg.LinAlgError is a ValueError
        return Unknown(f"no line goes through these packets ({error})")
