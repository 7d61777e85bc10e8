# SPDX-License-Identifier: Apache-2.0
"""A seed draws mixes of terminals, and shares are computed from them."""

from __future__ import annotations

import pytest

from experiments.air.starvation.drawn import NONE, Capped, Drawn, Run, shares


def test_share_is_capped_at_the_mean_of_equal_senders() -> None:
    mix = Drawn(
        (Capped(4, "cubic", None), Capped(16, "cubic", None), Capped(4, "bbr", (0.5, 2.5))), NONE, 4, None, False, True
    )
    off, ideal = (
        Run(mix, rule, bps, 0.0, "", "") for rule, bps in (("off", (9e6, 3e6, 1e6)), ("ideal", (6e6, 6e6, 5e5)))
    )
    assert shares(off, ideal) == pytest.approx([1.0, 2.0, 0.5])
