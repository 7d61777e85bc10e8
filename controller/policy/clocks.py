"""Two clocks that are not one: how the far end's drifts against ours, and whether somebody set either of them.

A crystal's rate is off by tens of millionths, and wanders with its temperature: over seconds, a line with some bends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.policy.lines import Numbers

BENDS = 3
STEP_S = 0.5e-3  # less is not told from packets that waited
FAST = 0.01  # of the packets are faster than one that hardly waited
FASTEST = 200e-6  # no crystal is so far off: the clock is being pulled


@dataclass(frozen=True, slots=True)
class Drift:
    """What a fit over time is made of: a slope from the first packet on, and what it changes by at each bend."""

    columns: Numbers
    span_s: float

    def mean(self, coefficients: Numbers) -> float:
        """Seconds a second, from the first packet to the last."""
        ends = self.columns[[0, -1]] @ coefficients
        return float(ends[1] - ends[0]) / self.span_s


def drift(sent: Numbers) -> Drift:
    """`sent` grows."""
    bends = np.linspace(sent[0], sent[-1], BENDS + 2)[:-1]
    columns = np.maximum(sent[:, None] - bends[None, :], 0)
    return Drift(columns - columns.mean(axis=0), float(sent[-1] - sent[0]))


def step_s(forth: Numbers, back: Numbers) -> float:
    """By how much one clock was set against the other meanwhile; 0: it was not.

    Setting a clock makes the way there longer by what it makes the way back shorter. Those that hardly waited, there
    and back together, tell it from waiting: their half difference is the clocks', but for a part of what they waited.
    """
    known = np.isfinite(forth + back)
    if known.sum() < 2:
        return 0.0
    together, half = (forth + back)[known], ((forth - back) / 2)[known]
    # Not the fastest of all: who was under way when our own clock was put back seems to have been faster than the path.
    fast = np.quantile(together, FAST)
    apart = np.diff(half[np.abs(together - fast) <= STEP_S / 2])
    if not len(apart):
        return 0.0
    largest = float(apart[np.abs(apart).argmax()])
    return largest if abs(largest) > STEP_S else 0.0
