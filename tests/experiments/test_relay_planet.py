# SPDX-License-Identifier: Apache-2.0
"""The planet on which relays are chosen: its physics, its policies and its figures."""

from __future__ import annotations

from itertools import pairwise

import pytest

from experiments.paper import paper001
from experiments.relay.planet.measure import Pair, RelayChoice, Run, choose_relays
from experiments.relay.planet.networks import Networks
from experiments.relay.planet.places import SETS
from experiments.relay.planet.readings import Readings
from experiments.relay.planet.report import figures
from experiments.relay.planet.routes import chains

SEED = 7


@pytest.fixture(scope="module", params=SETS)
def readings(request: pytest.FixtureRequest) -> Readings:
    return Readings(SETS[request.param], SEED)


@pytest.mark.slow
def test_routes_to_one_host_stay_together_after_they_meet(readings: Readings) -> None:
    """Routers are compared like in traceroute, by the side that a packet enters. Shared routers need that."""
    receiver, *others = readings.hosts
    ways = [[hop.router for hop in readings.routes.way(other, receiver).hops] for other in others]
    for one, other in pairwise(ways):
        met = next(router for router in one if router in other)
        assert one[one.index(met) :] == other[other.index(met) :]


def test_routes_are_valley_free() -> None:
    networks = Networks(SEED).by_name
    with_hosts = {name for name, one in networks.items() if not one.research}
    for destination in sorted(with_hosts):
        found = chains(networks, destination)
        assert found.keys() >= with_hosts, f"all of them reach {destination}"
        for chain in found.values():
            steps = [(networks[here], there) for here, there in pairwise(chain)]
            climbs = [there in here.providers for here, there in steps]
            falls = [there in here.customers for here, there in steps]
            assert climbs == sorted(climbs, reverse=True), f"{chain} climbs after it has not"
            assert falls == sorted(falls), f"{chain} goes on after it has begun to fall"
            assert len(chain) - 1 - sum(climbs) - sum(falls) <= 1, f"{chain} passes two peers"


@pytest.mark.slow
def test_our_choice_takes_no_relay_because_of_noise() -> None:
    run = choose_relays("Asia-US", SEED)
    assert len(run.pairs) == paper001.counts("Asia-US").pairs
    told = {one.what.strip(): one for one in figures([run])}
    assert told["Asia-US: ping finds a better relay"].value == pytest.approx(100 * len(run.relayed) / 1980)
    ours = [pair.ours for pair in run.pairs if pair.ours.relay]
    assert sum(taken.gain < 0 for taken in ours) <= 0.005 * len(ours)
    assert all(pair.any_count and pair.any_distance for pair in run.pairs if pair.survives)


def test_shares_count_pairs_with_a_better_relay() -> None:
    kept, lost = RelayChoice("kept", 0.5), RelayChoice("lost", 0.1)
    pairs = (
        Pair("a", "b", 100.0, kept, kept, kept, 0.2, 0.95, True, True, True),
        Pair("b", "a", 100.0, lost, kept, kept, 0.9, 0.2, True, True, False),
        Pair("a", "c", 100.0, RelayChoice(), RelayChoice("bad", -0.5), RelayChoice()),
    )
    told = {one.what.strip(): one.value for one in figures([Run("US-Europe", 1, pairs)])}
    assert told["US-Europe: ping finds a better relay"] == pytest.approx(200 / 3)
    assert told["both filters as printed leave it"] == told["and traceroute draws it"] == 50
    assert told["paper 001: 574 of 1889"] == pytest.approx(30.4, abs=0.1)
