# SPDX-License-Identifier: Apache-2.0
"""A seed draws mixes of terminals, and shares are computed from them."""

from __future__ import annotations

import pytest

from experiments.air.starvation.drawn import NONE, Capped, Drawn, Run, drawn, shares


def test_seed_draws_the_same_mixes() -> None:
    assert drawn(1, 20) == drawn(1, 20) != drawn(2, 20)
    assert {mix.is_written for mix in drawn(1, 20)} == {mix.by_gateway for mix in drawn(2, 20)} == {True, False}
    assert all(not mix.is_written and mix.capped[0].burst_s is None for mix in drawn(3, 20, written=False))


def test_share_is_capped_at_the_mean_of_equal_senders() -> None:
    mix = Drawn(
        (Capped(4, "cubic", None), Capped(16, "cubic", None), Capped(4, "bbr", (0.5, 2.5))), NONE, 4, None, False, True
    )
    off, ideal = (
        Run(mix, rule, bps, 0.0, "", "") for rule, bps in (("off", (9e6, 3e6, 1e6)), ("ideal", (6e6, 6e6, 5e5)))
    )
    assert shares(off, ideal) == pytest.approx([1.0, 2.0, 0.5])
