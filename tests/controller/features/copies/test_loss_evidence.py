# SPDX-License-Identifier: Apache-2.0
"""Probe reports of an agent are evidence only for configured uplinks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.features.copies.loss_evidence import Probes
from controller.policy.copies.tallies import LossCounts
from controller.protocol.reports import PathHealth, Reported
from tests.controller.features.peer_sites.test_tunnels import tunnelled
from tests.controller.features.probing.test_manager import ProbedSites
from tests.fakes.measurer import FakeMeasurer


def with_paths(event: Reported, number: int, names: list[str]) -> Reported:
    return replace(event, health=tuple(PathHealth(name, "", 10 * number, number, 0, 0, 0, ()) for name in names))


def reporter() -> FakeMeasurer:
    world = ProbedSites(tunnelled())
    home = FakeMeasurer("home")
    world.join(home)
    world.drain()
    return home


def test_invented_paths_are_ignored() -> None:
    home, probes = reporter(), Probes()
    for number in range(1, 100):
        event = with_paths(home.report(), number, ["wifi", "tor", f"path-{number // 2}"])
        found = probes.on_report(event, ["wifi", "lte"])
        assert {name: each.counts for name, each in found.items()} == (
            {"wifi": LossCounts(10, 1, 0)} if number > 1 else {}
        )


def test_path_without_new_probes_is_no_evidence_of_answers() -> None:
    home, probes = reporter(), Probes()
    for number in (1, 2):
        health = (PathHealth("wifi", "", 10, 0, 0, 0, 0, ()), PathHealth("lte", "", number, number, 0, 0, 0, ()))
        found = probes.on_report(replace(home.report(), health=health), ["wifi", "lte"])
    assert {name: each.counts for name, each in found.items()} == {"wifi": LossCounts(), "lte": LossCounts(1, 1, 0)}


@pytest.mark.parametrize(
    ("lost", "evidence"),
    [
        ({"wifi": 10, "lte": 0}, {"wifi", "lte"}),
        ({"wifi": 10, "lte": 9}, {"wifi", "lte"}),
        ({"wifi": 10, "lte": 10}, set()),
        ({"wifi": 10}, {"wifi"}),
        ({}, set()),
    ],
)
def test_agent_without_answers_on_any_path_is_no_evidence(lost: dict[str, int], evidence: set[str]) -> None:
    home, probes = reporter(), Probes()
    for number in (1, 2):
        health = (PathHealth(name, "", 10 * number, each * number, 0, 0, 0, ()) for name, each in lost.items())
        found = probes.on_report(replace(home.report(), health=tuple(health)), ["wifi", "lte"])
    assert found.keys() == evidence
