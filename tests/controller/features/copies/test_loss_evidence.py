# SPDX-License-Identifier: Apache-2.0
"""Probe reports of an agent are evidence only for configured uplinks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.features.copies.loss_evidence import Probes
from controller.policy.copies.tallies import LossCounts
from controller.protocol.reports import PathHealth
from tests.fakes.measurer import FakeMeasurer


def evidence(probes: Probes, reason: str = "", **counts: tuple[int, int, int]) -> dict[str, LossCounts]:
    """Report the numbers of sent, lost and late packets on each path."""
    health = tuple(PathHealth(name, reason, sent, lost, 0, 0, late, ()) for name, (sent, lost, late) in counts.items())
    found = probes.on_report(replace(FakeMeasurer("home").report(), health=health), ["wifi", "lte"])
    return {name: each.counts for name, each in found.items()}


@pytest.mark.parametrize(
    ("reason", "counts"),
    [("", (9, 0, 0)), ("", (20, 5000, 0)), ("", (20, 0, -1)), ("it has no device", (20, 5, 0))],
)
def test_invalid_or_restarted_counts_are_ignored(reason: str, counts: tuple[int, int, int]) -> None:
    probes = Probes()
    evidence(probes, wifi=(10, 0, 0))
    assert evidence(probes, reason, wifi=counts) == {}


def test_invented_paths_are_ignored() -> None:
    probes = Probes()
    for number in range(1, 100):
        found = evidence(probes, **dict.fromkeys(("wifi", "tor", f"path-{number // 2}"), (10 * number, number, 0)))
        assert found == ({"wifi": LossCounts(10, 1, 0)} if number > 1 else {})


def test_path_without_new_probes_is_no_evidence_of_answers() -> None:
    probes = Probes()
    evidence(probes, wifi=(10, 0, 0), lte=(1, 1, 0))
    assert evidence(probes, wifi=(10, 0, 0), lte=(2, 2, 0)) == {"wifi": LossCounts(), "lte": LossCounts(1, 1, 0)}


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        ({"wifi": 10, "lte": 0}, {"wifi", "lte"}),
        ({"wifi": 10, "lte": 9}, {"wifi", "lte"}),
        ({"wifi": 10, "lte": 10}, set()),
        ({"wifi": 10}, {"wifi"}),
        ({}, set()),
    ],
)
def test_agent_without_answers_on_any_path_is_no_evidence(lost: dict[str, int], named: set[str]) -> None:
    probes = Probes()
    evidence(probes, **{name: (10, each, 0) for name, each in lost.items()})
    assert evidence(probes, **{name: (20, 2 * each, 0) for name, each in lost.items()}).keys() == named
