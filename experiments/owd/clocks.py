"""Clocks as two hosts have them. Here both ends read one, so what a crystal does is added to the far end's.

33 us a second, as the paper measured of its own (figure 1), with a wander that a processor's temperature makes.
"""

from __future__ import annotations

import numpy as np

from controller.policy.bandwidth.estimators import Samples

SKEW = 33e-6
WANDER = 1e-7  # of the skew, in a second


def apart(samples: Samples, seed: int) -> tuple[Samples, float]:
    """With the mean drift that was added, in seconds a second."""
    dice = np.random.default_rng(seed)
    passed = np.diff(samples.sent, prepend=samples.sent[0])
    skew = SKEW + np.cumsum(dice.normal(0, WANDER * np.sqrt(np.maximum(passed, 0))))
    ahead = np.cumsum(skew * passed)
    mean = float(ahead[-1] / (samples.sent[-1] - samples.sent[0]))
    far = (samples.received + ahead, samples.answered + ahead)
    return Samples(samples.lengths, samples.sent, *far, samples.heard), mean
