# SPDX-License-Identifier: Apache-2.0
"""Combine several measurements of a path's rate into one figure."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from controller.policy.bandwidth.rates import KEPT_S, FusedRate, MeasuredRate, Method, Rate, Unknown, fused

NOW = 10_000.0
MBPS = 1e6


def measurement(method: Method, mbps: float, part: float = 0.01, at: float = NOW) -> MeasuredRate:
    return MeasuredRate(method, Rate(mbps * MBPS, mbps * MBPS * (1 - part), mbps * MBPS * (1 + part)), at)


def figure(*measured: MeasuredRate, now: float = NOW) -> FusedRate:
    found = fused(measured, now)
    assert isinstance(found, FusedRate)
    return found


def test_fused_weights_agreeing_methods_by_certainty() -> None:
    both = figure(measurement(Method.ONE_PACKET, 100, 0.01), measurement(Method.TRAINS, 104, 0.04))
    assert 100 < both.bps / MBPS < 100.5
    assert both.methods == (Method.ONE_PACKET, Method.TRAINS)
    alone = measurement(Method.ONE_PACKET, 100, 0.01).rate
    assert both.most_bps / both.least_bps < alone.most_bps / alone.least_bps


@pytest.mark.parametrize(("packet", "train", "chosen"), [(1000, 100, Method.TRAINS), (10, 50, Method.ONE_PACKET)])
def test_fused_picks_the_lower_of_two_disagreeing_methods(packet: float, train: float, chosen: Method) -> None:
    found = figure(measurement(Method.ONE_PACKET, packet), measurement(Method.TRAINS, train))
    assert found.methods == (chosen,)
    assert found.bps == min(packet, train) * MBPS


def test_fused_ignores_several_links_in_a_row() -> None:
    told = fused([measurement(Method.SEVERAL_LINKS, 47)], NOW)
    assert isinstance(told, Unknown) and "several links" in told.reason
    assert figure(measurement(Method.SEVERAL_LINKS, 47), measurement(Method.TRAINS, 90)).bps == 90 * MBPS


def test_fused_uses_delivery_as_a_lower_bound() -> None:
    only = figure(measurement(Method.DELIVERY, 30))
    assert (only.bps, only.least_bps, only.most_bps) == (30 * MBPS, 29.7 * MBPS, math.inf)
    assert figure(measurement(Method.TRAINS, 50), measurement(Method.DELIVERY, 30)).methods == (Method.TRAINS,)
    unsure = figure(measurement(Method.TRAINS, 10), measurement(Method.DELIVERY, 13, 0.3))
    assert unsure.methods == (Method.TRAINS,), "the delivery rate may be as low as 9.1"
    more = figure(measurement(Method.TRAINS, 50, at=NOW - 1000), measurement(Method.DELIVERY, 80))
    assert (more.bps, more.methods) == (80 * MBPS, (Method.DELIVERY,))


def test_fused_uses_the_newest_and_drops_expired_values() -> None:
    found = figure(measurement(Method.TRAINS, 50, at=NOW - 100), measurement(Method.TRAINS, 70, at=NOW - 10))
    assert (found.bps, found.age_s(NOW)) == (70 * MBPS, 10)
    old = measurement(Method.TRAINS, 50, at=NOW - KEPT_S - 1)
    assert isinstance(fused([old], NOW), Unknown) and isinstance(fused([old], NOW, 2 * KEPT_S), FusedRate)
    assert isinstance(fused([old], NOW + KEPT_S, 2 * KEPT_S), Unknown)
    assert isinstance(fused([measurement(Method.DELIVERY, 50, at=NOW - 61)], NOW, 2 * KEPT_S), Unknown)
    assert isinstance(fused([], NOW), Unknown)


measured = some.builds(
    measurement, some.sampled_from(Method), some.floats(0.001, 1e6), some.floats(0, 0.9), some.floats(0, 2 * NOW)
)


@given(some.lists(measured, max_size=10))
def test_fused_is_within_its_interval_and_below_an_hour_old(those: list[MeasuredRate]) -> None:
    found = fused(those, NOW)
    assert isinstance(found, Unknown) or (
        0 < found.least_bps <= found.bps * (1 + 1e-9)
        and found.bps <= found.most_bps * (1 + 1e-9)
        and found.age_s(NOW) <= KEPT_S
    )
