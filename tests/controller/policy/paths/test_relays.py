# SPDX-License-Identifier: Apache-2.0
"""Choose the relay of a connection: both methods of paper 001, and prediction, which selects no unmeasured relay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.policy.paths import relays
from controller.policy.paths.leg_throughput import Leg, LegRouter, by_loss, throughput
from controller.policy.paths.relays import (
    OLD_S,
    WORTH,
    Candidate,
    Filters,
    RelaySelection,
    believed,
    parallel,
    ping,
    predicted,
    traceroute,
)

WINDOW = 64 * 1024
DIRECT = Leg(200.0)


def relay(name: str, near: Leg, far: Leg, load: float | None = 0.0, overhead_ms: float | None = None) -> Candidate:
    return Candidate(name, near, far, load, overhead_ms)


HALF_WAY = relay("half", Leg(100.0), Leg(100.0))


def test_window_limits_throughput_as_in_equations_1_and_2() -> None:
    long, short = Leg(100.0, bandwidth_bps=100e6), Leg(5.0, bandwidth_bps=100e6)
    assert throughput(long, WINDOW).bps == pytest.approx(8 * WINDOW / (0.100 + 0.00012))
    assert throughput(short, WINDOW).bps == 100e6
    assert "64 KiB over 100 ms" in throughput(long, WINDOW).reason and "link" in throughput(short, WINDOW).reason


@pytest.mark.parametrize(
    ("most_bytes", "within", "loss", "rtt_ms", "segments"),
    [
        *((1 << 30, 0.03, *row) for row in ((1e-4, 100, 187), (1e-6, 100, 5926), (1e-2, 10, 12), (1e-4, 10, 120))),
        *((WINDOW, 0.08, *row) for row in ((8e-3, 160, 14.5), (1e-3, 80, 35.7), (5e-4, 140, 42.2), (3e-4, 140, 43.4))),
    ],
)
def test_loss_limits_the_average_window(
    most_bytes: int, within: float, loss: float, rtt_ms: float, segments: float
) -> None:
    """The first values are from the tables of RFC 9438, the others from a simulation with random segment loss."""
    assert by_loss(loss, rtt_ms, most_bytes) * rtt_ms / 1e3 / 8 / 1448 == pytest.approx(segments, rel=within)


@given(st.floats(1e-9, 1.0), st.floats(0.1, 500.0), st.integers(1448, 1 << 24))
def test_more_loss_or_delay_is_never_faster(loss: float, rtt_ms: float, window_bytes: int) -> None:
    leg = Leg(rtt_ms, loss)
    bps = throughput(leg, window_bytes).bps
    assert 0 < bps <= throughput(Leg(rtt_ms), window_bytes).bps
    assert throughput(replace(leg, loss=loss / 2), window_bytes).bps >= bps * (1 - 1e-9)
    assert throughput(replace(leg, rtt_ms=rtt_ms / 2), window_bytes).bps >= bps * (1 - 1e-9)


def test_ping_picks_the_relay_with_the_shortest_longer_leg() -> None:
    lopsided, long = relay("lopsided", Leg(10.0), Leg(190.0)), relay("long", Leg(90.0), Leg(200.0))
    choice = ping(DIRECT, [lopsided, HALF_WAY, long])
    assert choice.relays == ("half",)
    assert ping(DIRECT, [long]).relays == ()


@pytest.mark.parametrize("rule", [ping, predicted])
def test_relay_gains_nothing_by_a_false_round_trip(rule: Callable[[Leg, list[Candidate]], RelaySelection]) -> None:
    near, lie = Leg(20.0), Leg(0.001)
    liar = relay("liar", near, believed(DIRECT, near, lie))
    assert liar.far.rtt_ms == 180.0 and believed(DIRECT, near, Leg(230.0)).rtt_ms == 230.0, "a detour is believed"
    assert rule(DIRECT, [liar, HALF_WAY]).relays == ("half",)
    assert rule(DIRECT, [relay("far", Leg(230.0), believed(DIRECT, Leg(230.0), lie))]).relays == ()


def way(*routers: str, rtt_ms: float = 200.0) -> Leg:
    return Leg(rtt_ms, routers=tuple(LegRouter(name, 10.0 + 20.0 * n) for n, name in enumerate(routers)))


def test_traceroute_draws_among_relays_with_few_late_common_routers() -> None:
    """The last one of the others shares nothing. The rest share too many routers, or share them too soon."""
    direct = way(*"abcdefghij")
    left = [relay(name, Leg(50.0), way("x", "y", "j")) for name in ("one", "two", "three")]
    others = [way("x", *"ghij"), way(*"uvwxyabcdj"), way(*"uvwxyzabcdj"), way("x", "y")]
    candidates = [*left, *(relay("other", Leg(50.0), far) for far in others)]
    drawn = [traceroute(direct, candidates, draw).relays for draw in (0.0, 0.34, 0.999)]
    assert drawn == [("one",), ("two",), ("three",)]
    everything = Filters(0.0, 1.0, 0.0, 1.0)
    assert relays.passing_relays(direct, [relay("r", Leg(50.0), direct)], everything), "the filters are parameters"


CROWDED = replace(HALF_WAY, name="crowded", load=0.95)
SLOW = replace(HALF_WAY, name="slow", overhead_ms=300.0)
NARROW = relay("narrow", Leg(20.0), Leg(180.0, bandwidth_bps=1e6))
LOSING = relay("losing", Leg(100.0, loss=0.02), Leg(100.0))
DRAINED = replace(HALF_WAY, name="drained", draining=True)
OLD = relay("old", Leg(100.0, age_s=OLD_S + 1), Leg(100.0))
OBSCURE = replace(HALF_WAY, name="obscure", load=None)


@pytest.mark.parametrize("bad", [CROWDED, SLOW, NARROW, LOSING, DRAINED, OLD, OBSCURE], ids=lambda one: one.name)
def test_predicted_rejects_worse_or_unmeasured_relays(bad: Candidate) -> None:
    assert predicted(DIRECT, [bad], window_bytes=WINDOW).relays == ()
    assert predicted(DIRECT, [bad], present=(bad.name,), window_bytes=WINDOW).relays == ()
    worse = relay("worse", Leg(120.0), Leg(130.0))
    assert predicted(DIRECT, [bad, worse], window_bytes=WINDOW).relays == ("worse",), "the best one without overload"


@given(st.floats(0, 0.1), st.floats(1e5, 1e9), st.floats(1.0, 300.0), st.floats(1.0, 300.0))
def test_unmeasured_leg_counts_as_the_direct_path(
    loss: float, bandwidth_bps: float, near_ms: float, far_ms: float
) -> None:
    direct = Leg(200.0, loss, bandwidth_bps)
    unmeasured = predicted(direct, [relay("r", Leg(near_ms), Leg(far_ms))])
    known = predicted(direct, [relay("r", replace(direct, rtt_ms=near_ms), replace(direct, rtt_ms=far_ms))])
    assert unmeasured == known


LEGS = st.builds(
    Leg, st.floats(0.0, 500.0), st.none() | st.floats(0, 1), st.none() | st.floats(0, 1e9), st.floats(0, 2 * OLD_S)
)
FRACTION = st.none() | st.floats(0.0, 1.0)
RELAYS = st.builds(
    Candidate, st.sampled_from("abc"), LEGS, LEGS, FRACTION, st.none() | st.floats(0.0, 100.0), st.booleans()
)


@given(LEGS, st.lists(RELAYS, max_size=3, unique_by=lambda one: one.name), st.sampled_from([(), ("a",), ("b", "c")]))
def test_predicted_picks_no_worse_relay_and_is_stable(
    direct: Leg, candidates: list[Candidate], present: tuple[str, ...]
) -> None:
    choice = predicted(direct, candidates, present)
    if choice.relays:
        assert choice.predicted_bps is not None and choice.direct_bps is not None
        assert choice.predicted_bps >= choice.direct_bps
        assert not [one for one in candidates if one.name in choice.relays and one.draining]
    assert predicted(direct, candidates, choice.relays).relays == choice.relays


def test_predicted_ignores_small_fluctuations() -> None:
    def measured(a_ms: float, b_ms: float) -> list[Candidate]:
        return [relay("a", Leg(a_ms), Leg(a_ms)), relay("b", Leg(b_ms), Leg(b_ms))]

    assert predicted(DIRECT, measured(100, 96), present=("a",)).relays == ("a",)
    assert predicted(DIRECT, measured(96, 100), present=("a",)).relays == ("a",)
    assert predicted(DIRECT, measured(100, 100 / WORTH - 1), present=("a",)).relays == ("b",)
    assert predicted(DIRECT, measured(196, 250)).relays == (), "a first relay is not worth it either"
    assert predicted(DIRECT, measured(196, 250), present=("a",)).relays == ("a",)
    assert predicted(DIRECT, measured(201, 250), present=("a",)).relays == (), "it is worse"


def disjoint(name: str, mbps: float) -> Candidate:
    return relay(name, Leg(20.0, bandwidth_bps=mbps * 1e6), Leg(20.0, bandwidth_bps=mbps * 1e6))


@pytest.mark.parametrize(
    ("uplink_bps", "taken", "mbps"),
    [(100e6, ("a", "b"), 38.0), (30e6, ("a", "b"), 30.0), (21e6, ("a",), 20.0), (None, ("a",), 20.0)],
)
def test_parallel_adds_relays_up_to_the_uplink_rate(
    uplink_bps: float | None, taken: tuple[str, ...], mbps: float
) -> None:
    candidates = [disjoint("a", 20), disjoint("b", 18), disjoint("c", 1)]
    direct = Leg(40.0, bandwidth_bps=15e6)
    choice = parallel(direct, candidates, most=3, uplink_bps=uplink_bps)
    assert choice.relays == taken and choice.predicted_bps == pytest.approx(mbps * 1e6)
    assert predicted(direct, candidates, present=("a", "b")).relays == ("a",)


def test_parallel_adds_no_relay_when_the_uplink_limits() -> None:
    """Half the round trip gains nothing where the uplink limits throughput instead of the window."""
    choice = parallel(DIRECT, [HALF_WAY], most=2, uplink_bps=20e6)
    assert choice.relays == () and choice.direct_bps == 20e6
    assert parallel(DIRECT, [HALF_WAY], most=2, uplink_bps=20e6, window_bytes=WINDOW).relays == ("half",)


def test_fully_loaded_relay_is_not_chosen() -> None:
    nowhere = Candidate("nowhere", Leg(0.0), Leg(0.0), load=1.0)
    direct = Leg(50.0)
    for choice in (predicted(direct, [nowhere]), parallel(direct, [nowhere], most=2, present=["nowhere"])):
        assert choice.relays == () and choice.predicted_bps == choice.direct_bps
