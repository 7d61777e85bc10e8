# SPDX-License-Identifier: Apache-2.0
"""Choose the agent that moves a terminal and the armed failovers: never two agents for one connection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.policy.paths.evidence import SubflowFlags, TerminalConnections
from controller.policy.paths.failover import ArmedFailover, failover
from controller.policy.paths.health import UplinkHealth, UplinkPath, UplinkReading
from controller.policy.paths.movers import Reach, astray, choose
from controller.protocol.reports import PathManager, Role

HELD = st.builds(SubflowFlags, st.sampled_from(["wifi", "lte"]), st.booleans(), st.booleans())
STANDINGS = st.builds(
    TerminalConnections, st.dictionaries(st.integers(1, 3), st.lists(HELD, min_size=1, max_size=3), min_size=1)
)
REACHES = st.builds(
    Reach,
    st.sampled_from(["a", "b", "c", "d"]),
    st.sampled_from(Role),
    st.sampled_from(PathManager),
    st.none() | st.just("it cannot"),
    st.none() | STANDINGS,
    st.booleans(),
)


@given(st.lists(REACHES, max_size=4, unique_by=lambda reach: reach.agent))
def test_one_end_moves_and_only_if_it_can(reaches: list[Reach]) -> None:
    choice = choose(reaches)
    by_name = {reach.agent: reach for reach in reaches}
    moving = [by_name[name] for name in choice.movers]
    assert len({reach.role for reach in moving}) <= 1
    assert sum(reach.role is Role.TERMINAL for reach in moving) <= 1
    assert not [reach for reach in moving if reach.unable or reach.role is Role.GATEWAY]
    assert bool(moving) == (choice.unmoved is None)
    assert not set(choice.movers) & set(choice.letting_go)
    if choice.wider:
        assert not moving


def connections(*held: SubflowFlags) -> TerminalConnections:
    return TerminalConnections({1: list(held)})


def test_connection_is_astray_if_it_could_prefer_the_path() -> None:
    wifi, lte = SubflowFlags("wifi", False, False), SubflowFlags("lte", False, False)
    assert astray(connections(wifi, lte), "lte") == {1}
    assert astray(connections(SubflowFlags("wifi", True, False), SubflowFlags("lte", True, False)), "lte") == {1}
    for content in (
        connections(SubflowFlags("wifi", True, False), lte),
        connections(SubflowFlags("wifi", False, True), lte),
        connections(wifi),
        connections(wifi, SubflowFlags("lte", False, True)),
    ):
        assert not astray(content, "lte")


WHERE = {"wifi": ("192.0.2.1",), "lte": ("192.0.2.2",), "dsl": ("192.0.2.3",)}


def test_failover_falls_back_to_the_best_living_path() -> None:
    good, lossy, dead = UplinkPath(UplinkHealth.GOOD), UplinkPath(UplinkHealth.LOSSY), UplinkPath(UplinkHealth.DEAD)
    found = failover("phone", "wifi", WHERE, {"wifi": good, "lte": lossy, "dsl": good}, 0, False)
    assert found == ArmedFailover("phone", "wifi", "dsl", 150, 100)
    assert failover("phone", "wifi", WHERE, {"wifi": good, "lte": dead, "dsl": dead}, 0, False) is None
    assert failover("phone", "wifi", {}, {"wifi": good, "lte": good}, 0, False) is None
    assert failover("phone", "wifi", WHERE, {"lte": good}, 0, False) is None


def test_failover_waits_longer_when_every_uplink_has_copies() -> None:
    found = failover("phone", "wifi", WHERE, {"wifi": UplinkPath(), "lte": UplinkPath()}, 0, True)
    assert found == ArmedFailover("phone", "wifi", "lte", 400, 400)


@pytest.mark.parametrize(
    ("wifi", "waits_ms"),
    [
        (UplinkPath(UplinkHealth.LOSSY), 1000),
        (UplinkPath(window=(UplinkReading(100, 5, 90_000, 0),)), 1000),
        (UplinkPath(window=(UplinkReading(100, 3, 90_000, 0),)), 150),
        (UplinkPath(window=(UplinkReading(20, 5, 20_000, 0),)), 150),  # too few to decide
    ],
)
def test_failover_waits_longer_on_a_very_lossy_path(wifi: UplinkPath, waits_ms: int) -> None:
    found = failover("phone", "wifi", WHERE, {"wifi": wifi, "lte": UplinkPath()}, 0, False)
    assert found is not None and found.no_progress_ms == waits_ms


@given(st.integers(0, 300_000))
def test_failover_waits_for_three_round_trips(srtt_us: int) -> None:
    found = failover("phone", "wifi", WHERE, {"wifi": UplinkPath(), "lte": UplinkPath()}, srtt_us, False)
    assert found and max(150, 3 * srtt_us / 1000 + 50) <= found.no_progress_ms < max(150, 3 * srtt_us / 1000 + 50) + 50
    assert max(100, 1.5 * srtt_us / 1000 + 50) <= found.no_progress_many_ms <= found.no_progress_ms


@pytest.mark.parametrize("copied", [False, True])
def test_failover_fires_within_a_second_after_a_lost_handshake(copied: bool) -> None:
    found = failover("phone", "wifi", WHERE, {"wifi": UplinkPath(), "lte": UplinkPath()}, 2_041_000, copied)
    assert found == ArmedFailover("phone", "wifi", "lte", 1000, 1000)


def test_failover_is_not_rearmed_for_a_small_change() -> None:
    armed = ArmedFailover("phone", "wifi", "lte", 200, 125)
    assert not ArmedFailover("phone", "wifi", "lte", 150, 100).outdates(armed)
    assert ArmedFailover("phone", "wifi", "lte", 250, 150).outdates(armed)
    assert armed.outdates(ArmedFailover("phone", "wifi", "lte", 6400, 3200))
    assert ArmedFailover("phone", "lte", "wifi", 200, 125).outdates(armed)
