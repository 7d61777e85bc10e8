"""The rate of a path from trains: packets sent at once, which the narrowest link spaces out by what each takes there.

Where a shaper lets a burst pass at full speed first, its packets say nothing of the rate behind it: only how a train
ends is looked at. Others' packets between a train's own spread it, so of many trains the middle one counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controller.policy.bandwidth import Rate, Unknown, said
from controller.policy.lines import Numbers, least_squares

FEWEST_PACKETS = 8  # in what is looked at
FEWEST_TRAINS = 6  # of five the least and the most have the median between them in 94 of 100 cases
END = 0.5  # this part of a train
SURE = 1.96
UNSURE_PART = 0.01  # headers that nobody counts, a burst, interrupts: no number of trains makes it less
APART_S = 20e-6  # what comes closer is spaced by the hosts: by their interrupts, and by who reads


def of_train(arrived: Numbers, on_the_wire: Numbers) -> float | None:
    """Bits a second of its end; None: too few of it came, or all at once. `on_the_wire`: the bytes of each packet."""
    end = slice(int(len(arrived) * (1 - END)), None)
    times, lengths = arrived[end], on_the_wire[end]
    if len(times) < FEWEST_PACKETS or times[-1] <= times[0]:
        return None
    sent = np.concatenate([[0], np.cumsum(lengths[1:])])
    slope = float(least_squares(np.column_stack([np.ones_like(sent), sent]), times - times[0]).coefficients[1])
    return 8 / slope if slope > 0 else None


def _longest(trains: Sequence[tuple[Numbers, Numbers]]) -> float:
    return max(float(on_the_wire.max()) for _, on_the_wire in trains if len(on_the_wire))


def rate(trains: Sequence[tuple[Numbers, Numbers]]) -> Rate | Unknown:
    """The middle one's, between those that have the true median between them in 95 of 100 (by their order alone)."""
    rates = np.sort([bps for each in trains if (bps := of_train(*each))])
    if len(rates) < FEWEST_TRAINS:
        return Unknown(f"{len(rates)} trains of {len(trains)} came, expected {FEWEST_TRAINS} at least")
    if 8 * _longest(trains) / np.median(rates) < APART_S:
        return Unknown(f"trains come too fast for these hosts: at some {said(float(np.median(rates)))}")
    reach = SURE * np.sqrt(len(rates)) / 2
    low = max(0, int(np.floor(len(rates) / 2 - reach)))
    high = min(len(rates) - 1, int(np.ceil(len(rates) / 2 + reach)))
    least, most = float(rates[low]) * (1 - UNSURE_PART), float(rates[high]) * (1 + UNSURE_PART)
    return Rate(float(np.median(rates)), least, most)
