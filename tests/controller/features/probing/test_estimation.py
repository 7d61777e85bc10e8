# SPDX-License-Identifier: Apache-2.0
"""Any probe report leads to a rate or to a reason for its absence."""

from __future__ import annotations

import json
from dataclasses import replace
from math import isfinite
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from controller.edges.config.document import Node
from controller.edges.state import store
from controller.features.probing.path_record import Estimate, Estimated, PathEstimate, written
from controller.features.probing.probe_evaluation import estimated
from controller.features.probing.probed_paths import ProbedPath
from controller.features.probing.schedule import plan
from controller.policy.bandwidth.rates import Alpha, FusedRate, Method, Rate, Unknown
from controller.protocol.orders import ProbeRoute
from controller.protocol.reports import ProbePacket, ProbeReport
from tests.fakes.measurer import FakePath

ROAD = ProbedPath("home", "wifi", "home", "far", ProbeRoute(None, None, "203.0.113.9"), 1, None)
HOUR_NS = 3600 * 10**9


def packets(link: FakePath, down: bool = False, bps: float | None = None) -> tuple[ProbePacket, ...]:
    return tuple(link.probed(plan(down, bps).order(ROAD, down, 1)))


def estimate_of(*told: ProbePacket, link_bps: float | None = None, down: bool = False) -> Estimated:
    return estimated(Estimate("home", "wifi", down, ProbeReport(1, 1, "", "udp", told), None, link_bps, at=50.0))


def check_handled(found: Estimated) -> None:
    for each in (found.one_packet, found.trains):
        if isinstance(each, Rate):
            assert 0 < each.least_bps <= each.bps <= each.most_bps and isfinite(each.most_bps)
        else:
            assert each.reason and len(each.reason) < 400
    page = written(PathEstimate(), found)
    assert isinstance(page.figure(None, 60.0), FusedRate | Unknown) and page.ended == 1
    kept = store.written_estimates({(("home", "wifi"), False): page})  # the next start can read it
    (again,) = store.read_estimates(Node("state", "paths", json.loads(json.dumps(kept)))).values()
    assert (again.alpha, again.measured) == (page.alpha, page.measured)


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("paid", [False, True])
def test_both_methods_find_the_rate_of_a_link(down: bool, paid: bool) -> None:
    found = estimate_of(*FakePath(bps=20e6).probed(plan(down, None, paid).order(ROAD, down, 1)), down=down)
    for each in (found.one_packet, found.trains):
        assert isinstance(each, Rate) and each.bps == pytest.approx(20e6, rel=0.02)
    assert (found.lost, found.reordered, found.alpha) == (0, 0, None)


def test_path_mtu_is_found_if_only_long_packets_are_lost() -> None:
    told = [
        replace(each, received_ns=None, returned_ns=None) if each.length > 1252 else each
        for each in packets(FakePath())
    ]
    assert estimate_of(*told).mtu_bytes == 1248 + 28  # a multiple of the step between lengths
    assert estimate_of(*packets(FakePath())).mtu_bytes is None


def page_after(page: PathEstimate, at: float, one_packet: float | None, trains: float | None) -> PathEstimate:
    order = Estimate("home", "wifi", False, ProbeReport(1, 1, "", "udp", ()), None, None, at)
    return written(page, Estimated(order, rate_of(one_packet), rate_of(trains), None))


def rate_of(bps: float | None) -> Rate | Unknown:
    return Rate(bps, bps * 0.99, bps * 1.01) if bps else Unknown("too few")


@pytest.mark.parametrize(
    ("earlier", "later", "bps", "methods"),
    [
        ((5e6, 10e6), (5e6, None), 10e6, (Method.TRAINS,)),
        ((10e6, 10e6), (5e6, None), 5e6, (Method.ONE_PACKET,)),
        ((5e6, 5e6), (None, 20e6), 20e6, (Method.TRAINS,)),
        ((20e6, 5e6), (20e6, None), 5e6, (Method.TRAINS,)),
    ],
    ids=["the last trains count", "a slower wire", "faster trains", "the wire's rate says nothing about its shaper"],
)
def test_rate_of_single_packets_follows_the_last_trains(
    earlier: tuple[float, float],
    later: tuple[float | None, float | None],
    bps: float,
    methods: tuple[Method, ...],
) -> None:
    found = page_after(page_after(PathEstimate(), 50.0, *earlier), 700.0, *later).figure(None, 700.0)
    assert isinstance(found, FusedRate) and (found.bps, found.methods) == (bps, methods)


@pytest.mark.parametrize("link_bps", [2e6, 15e6, 25e6, 1e9])
def test_calibration_by_a_wrong_link_rate_is_refused(link_bps: float) -> None:
    found = estimate_of(*packets(FakePath(bps=20e6)), link_bps=link_bps)
    assert isinstance(found.alpha, Unknown) and "ns a byte" in found.alpha.reason
    assert isinstance(found.one_packet, Rate) and found.one_packet.bps == pytest.approx(20e6, rel=0.02)
    assert written(PathEstimate(), found).alpha is None
    check_handled(found)


@pytest.mark.parametrize("link_bps", [20e6, 20.1e6])
def test_calibration_accepts_a_small_host_delay(link_bps: float) -> None:
    found = estimate_of(*packets(FakePath(bps=20e6)), link_bps=link_bps)
    alpha = pytest.approx(8 / 20e6 - 8 / link_bps, abs=1e-10)
    assert isinstance(found.alpha, Alpha) and found.alpha.s_per_byte == alpha
    assert isinstance(found.one_packet, Rate) and found.one_packet.bps == pytest.approx(link_bps, rel=0.002)


def test_calibration_needs_a_rate() -> None:
    found = estimate_of(*packets(FakePath())[:10], link_bps=20e6)
    assert isinstance(found.alpha, Unknown)
    page = written(PathEstimate(alpha=Alpha(1e-10, 1e-11)), found)
    assert page.alpha == Alpha(1e-10, 1e-11) and "10 packets arrived" in page.error


MOMENTS = some.one_of(some.none(), some.integers(0, HOUR_NS))
PACKETS = some.builds(
    ProbePacket, some.integers(0, 3), some.sampled_from([0, 16, 64, 1440, 65_507]), MOMENTS, MOMENTS, MOMENTS, MOMENTS
)


@settings(max_examples=200, deadline=None)
@given(some.lists(PACKETS, max_size=12), some.integers(1, 8), some.sampled_from([None, 1.0, 1e8]))
@example([ProbePacket(0, 16, 5, 5, 5, 5)], 8, 1e8)
def test_random_packets_are_handled(told: list[ProbePacket], times: int, link_bps: float | None) -> None:
    check_handled(estimate_of(*told * times, link_bps=link_bps))


@settings(max_examples=40, deadline=None)
@given(
    some.lists(some.tuples(some.integers(0, 1399), MOMENTS, some.integers(0, 3)), min_size=1, max_size=400),
    some.sampled_from([None, 20e6]),
)
def test_probe_with_random_times_is_handled(bends: list[tuple[int, int | None, int]], link_bps: float | None) -> None:
    told = list(packets(FakePath()))
    for number, at, which in bends:
        if number < len(told):
            name = ("sent_ns", "received_ns", "answered_ns", "returned_ns")[which]
            bent: dict[str, Any] = {name: at}
            told[number] = replace(told[number], **bent)
    check_handled(estimate_of(*told, link_bps=link_bps))
