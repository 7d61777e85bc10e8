# SPDX-License-Identifier: Apache-2.0
"""Estimate the rate of a path from one-way delays of simulated packets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from controller.policy.bandwidth import estimators
from controller.policy.bandwidth.estimators import Samples, Slope, calibrated, one_way, paper, rate
from controller.policy.bandwidth.rates import Alpha, Rate, Unknown

LENGTHS = np.arange(16.0, 1441, 16)
REPLY, HEADERS = 48, 42


@dataclass(frozen=True)
class SimulatedPath:
    """A link between two hosts with processing delays and separate clocks."""

    bps: float
    tries: int = 100
    every_s: float = 1e-3
    skew: float = 33e-6
    wander: float = 1e-7  # change of the skew per second
    alpha: float = 0.35e-9
    load: float = 0.0  # share of the link used by other traffic, in both directions
    base_s: float = 2e-3

    def samples(self, seed: int) -> Samples:
        dice = np.random.default_rng(seed)
        lengths = np.concatenate([dice.permutation(LENGTHS) for _ in range(self.tries)])
        sent = np.cumsum(self.every_s * (1 + 0.1 * dice.random(len(lengths))))
        there = self.delays(dice, lengths)
        steps = np.diff(sent, prepend=0)
        skew = self.skew + np.cumsum(dice.normal(0, self.wander * np.sqrt(steps)))
        ahead = 0.5 + np.cumsum(skew * steps)
        turnaround = dice.gamma(4, 10e-6, len(lengths))
        back = self.delays(dice, np.full(len(lengths), REPLY))
        received = sent + there + ahead
        return Samples(lengths, sent, received, received + turnaround, sent + there + turnaround + back)

    def delays(self, dice: np.random.Generator, lengths: np.ndarray) -> np.ndarray:
        n = len(lengths)
        whole = 8 * 1514 / self.bps
        ahead = np.where(dice.random(n) < self.load, whole * (dice.random(n) + dice.geometric(1 - self.load, n) - 1), 0)
        late = dice.gamma(2, 2.5e-6, n) + (dice.random(n) < 0.02) * dice.exponential(300e-6, n)
        return self.base_s + 8 * (lengths + HEADERS) / self.bps + self.alpha * lengths + ahead + late


TEN = SimulatedPath(10e6, tries=10, every_s=12e-3)
HUNDRED = SimulatedPath(100e6, every_s=1.2e-3)
THOUSAND = SimulatedPath(1e9)
KNOWN = Alpha(0.35e-9, 0.1e-9)


@pytest.mark.parametrize(("path", "within"), [(TEN, 0.01), (HUNDRED, 0.01), (THOUSAND, 0.06)])
@pytest.mark.parametrize("load", [0, 0.5])
def test_rate_is_accurate_and_within_its_interval(path: SimulatedPath, within: float, load: float) -> None:
    found = [rate(replace(path, load=load).samples(seed), KNOWN) for seed in range(10)]
    rates = [each for each in found if isinstance(each, Rate)]
    assert len(rates) == 10
    assert max(abs(each.bps / path.bps - 1) for each in rates) < within
    assert abs(float(np.mean([each.bps for each in rates])) / path.bps - 1) < within / 2
    assert sum(each.least_bps <= path.bps <= each.most_bps for each in rates) >= 9
    assert max(each.most_bps / each.least_bps for each in rates) < 1.2


def test_paper_estimator_is_worse_when_clocks_drift() -> None:
    """A skew of 33 ppm adds 330 us in ten seconds; a packet of 1440 bytes takes 115 us."""
    path = replace(HUNDRED, tries=10, every_s=11e-3)

    def off(way: Callable[[Samples], Slope], path: SimulatedPath, seed: int) -> float:
        return abs(8 / (way(path.samples(seed)).s_per_byte - path.alpha) / path.bps - 1)

    theirs, ours = (median(off(way, path, seed) for seed in range(10)) for way in (paper, one_way))
    assert theirs > 3 * ours
    assert off(paper, replace(path, skew=0, wander=0), 0) < 0.01


def test_host_delay_calibrated_at_one_rate_corrects_another() -> None:
    alpha = calibrated(one_way(replace(HUNDRED, alpha=2.5e-9).samples(0)), 100e6)
    assert alpha.s_per_byte == pytest.approx(2.5e-9, abs=0.6e-9)
    corrected = rate(replace(THOUSAND, alpha=2.5e-9).samples(1), alpha)
    assert isinstance(corrected, Rate) and 0.93e9 < corrected.bps < 1.07e9


@pytest.mark.parametrize("alpha", [0.1e-9, 1e-9, 2e-9])
def test_rate_is_unknown_when_host_delay_is_unknown(alpha: float) -> None:
    slow, fast = (rate(replace(path, alpha=alpha).samples(1)) for path in (HUNDRED, THOUSAND))
    assert isinstance(slow, Rate) and slow.least_bps <= 100e6 <= slow.most_bps
    assert isinstance(fast, Unknown) and fast.reason.startswith("the rate may be ")


def test_rate_is_unknown_when_length_adds_no_delay() -> None:
    told = rate(replace(THOUSAND, bps=1e15).samples(0), KNOWN)
    assert isinstance(told, Unknown) and told.reason.startswith("longer packets do not take longer")


@pytest.mark.parametrize("step_s", [0.001, -0.001, 0.002, -0.002, 60])
@pytest.mark.parametrize("stepped", [("sent", "returned"), ("received", "answered")], ids=["local", "remote"])
def test_rate_is_unknown_when_a_clock_steps(stepped: tuple[str, str], step_s: float) -> None:
    samples = THOUSAND.samples(0)
    when = samples.sent[4000] + 0.5e-3  # some packets are in flight
    times = {name: getattr(samples, name) for name in stepped}
    skewed = {name: at + (at > when + 0.5 * (stepped[0] == "received")) * step_s for name, at in times.items()}
    told = rate(replace(samples, **skewed), KNOWN)
    assert isinstance(told, Unknown) and "a clock was set during the probe" in told.reason


def test_interval_contains_the_rate_with_few_packets() -> None:
    few = [rate(replace(HUNDRED, tries=1).samples(seed), KNOWN) for seed in range(40)]
    known = [each for each in few if isinstance(each, Rate)]
    assert len(known) >= 30
    assert sum(each.least_bps <= 100e6 <= each.most_bps for each in known) >= 0.85 * len(known)


def test_rate_is_unknown_when_a_clock_is_slewed() -> None:
    told = rate(replace(HUNDRED, skew=500e-6).samples(0))
    assert isinstance(told, Unknown) and "a clock is being adjusted: +5" in told.reason


def test_rate_needs_no_replies() -> None:
    samples = HUNDRED.samples(0)
    mute = replace(samples, answered=np.full_like(samples.sent, np.nan), returned=np.full_like(samples.sent, np.nan))
    told = rate(mute, KNOWN)
    assert isinstance(told, Rate) and told.bps == pytest.approx(100e6, rel=0.01)


numbers = some.floats(-1e6, 1e6) | some.sampled_from([0.0, np.nan])


rows = some.tuples(numbers, numbers, numbers, numbers, some.integers(0, 1440))


@given(some.lists(rows, max_size=20) | some.lists(rows, min_size=60, max_size=90))
def test_rate_returns_a_rate_or_a_reason_for_random_samples(rows: list[tuple[float, float, float, float, int]]) -> None:
    columns = np.array(rows, dtype=float).reshape(-1, 5)
    told = rate(Samples(columns[:, 4], *columns[:, :4].T))
    assert isinstance(told, Unknown) or 0 < told.least_bps <= told.bps <= told.most_bps


@given(
    some.lists(some.sampled_from([0.0, 0.001, 0.002]), min_size=100, max_size=100),
    some.sampled_from([0.0, 1e-3, np.nan, np.inf]),
)
def test_rate_is_finite_when_delays_are_identical(delays: list[float], odd: float) -> None:
    lengths, sent = np.tile(LENGTHS[:10], 10), np.arange(100) / 1000
    received = sent + np.array(delays)
    received[50] += odd
    told = rate(Samples(lengths, sent, received, received, received + 0.001))
    assert isinstance(told, Unknown) or 0 < told.least_bps <= told.bps <= told.most_bps


def train(bps: float, burst: int = 0, packets: int = 50, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return delays and lengths of a train behind a shaper that passes `burst` bytes at once."""
    dice = np.random.default_rng(seed)
    lengths = np.full(packets, 1482.0)
    behind = np.maximum(np.cumsum(lengths) - burst, 0)
    return 8 * behind / bps + dice.gamma(2, 2e-6, packets), lengths


@pytest.mark.parametrize("bps", [10e6, 100e6, 400e6])
@pytest.mark.parametrize("burst", [0, 15_000, 30_000])
def test_trains_measure_the_shaped_rate_behind_a_burst(bps: float, burst: int) -> None:
    told = estimators.rate_of_trains([train(bps, burst, seed=each) for each in range(20)])
    assert isinstance(told, Rate) and told.bps == pytest.approx(bps, rel=0.05)
    assert told.least_bps <= told.bps <= told.most_bps


def test_trains_are_rejected_when_too_few_arrive_or_too_fast() -> None:
    told = estimators.rate_of_trains([train(1e9, seed=each) for each in range(20)])
    assert isinstance(told, Unknown) and told.reason.startswith("trains arrive too fast for these hosts: at about 1")
    told = estimators.rate_of_trains([train(1e6)] * 5)
    assert isinstance(told, Unknown) and "5 trains of 5 arrived, expected at least 6" in told.reason


def test_trains_ignore_cross_traffic_in_a_minority() -> None:
    mixed = [train(50e6 if each % 3 == 0 else 100e6, seed=each) for each in range(21)]
    told = estimators.rate_of_trains(mixed)
    assert isinstance(told, Rate) and told.bps == pytest.approx(100e6, rel=0.05)


def test_train_interval_includes_header_uncertainty() -> None:
    told = estimators.rate_of_trains([train(99.9e6)] * 20)
    assert isinstance(told, Rate) and told.least_bps < 99.5e6 and told.most_bps > 100e6
