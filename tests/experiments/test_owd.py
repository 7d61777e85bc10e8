# SPDX-License-Identifier: Apache-2.0
"""The experiment on link rates reads the probe's files and counts its findings."""

from __future__ import annotations

import numpy as np
import pytest

from controller.policy.bandwidth.estimators import Samples, Slope
from controller.policy.bandwidth.rates import Alpha, Rate, Unknown
from experiments.owd import measure
from experiments.owd.measure import Run
from experiments.owd.plan import Link
from experiments.owd.report import figures


def test_drift_is_added_only_to_the_far_clock() -> None:
    sent = np.linspace(0, 10, 1000)
    near = Samples(np.full(1000, 16.0), sent, sent + 1e-3, sent + 2e-3, sent + 3e-3)
    far, added = measure.add_drift(near, 0)
    assert added == pytest.approx(33e-6, abs=2e-6)
    assert far.received[-1] - near.received[-1] == pytest.approx(10 * added, rel=0.01)
    assert np.allclose(far.answered - far.received, near.answered - near.received)
    assert (far.sent, far.returned) == (near.sent, near.returned)


def run(bps: float, off: float, link: Link, stalled: str = "") -> Run:
    samples = Samples(*(np.zeros(10) for _ in range(5)))
    slope = Slope(8 / bps, 0.01 * 8 / bps, 33e-6)
    found = Rate(bps, bps * (1 - off), bps * (1 + off)) if off else Unknown("too wide")
    return Run(link, 0, 12, samples, 31e-6, slope, slope, slope, slope, found, found, slope, slope, Alpha(0), stalled)


def test_bias_coverage_and_skew_are_judged() -> None:
    link = Link(100_000_000)
    runs = [run(100.5e6, 0.01, link), run(99.9e6, 0.01, link), run(102e6, 0.01, link), run(90e6, 0, link)]
    told = {one.what: one for one in figures([*runs, run(50e6, 0.1, link, stalled="on link")])}
    bias = told["100 Mbit/s: bias, of either sign"]
    assert (bias.value, bias.n, bias.met) == (pytest.approx(0.8), 3, True)
    assert (told["  not known"].value, told["  skew, off by"].value) == (1, pytest.approx(2))
    inside = told["the true rate is in the interval"]
    assert (inside.value, inside.met) == (0.5, False)
    assert told["  paper 004, table 6: UDP one-way, alpha taken off"].value == 100.3


def test_one_packet_must_give_no_rate_of_a_token_bucket() -> None:
    link = Link(100_000_000, bucket=True)
    told = {one.what: one for one in figures([run(101e6, 0.01, link), run(100e6, 0, link)])}
    assert told["100 Mbit/s by a token bucket: not told by one packet"].met is False
    assert told["  trains: off by"].met is True
