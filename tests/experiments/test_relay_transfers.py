# SPDX-License-Identifier: Apache-2.0
"""The gain of a relay is measured by real transfers: their plan, the arithmetic, and two short ones."""

from __future__ import annotations

import pytest

from experiments.relay.halfway.measure import Run as Halved
from experiments.relay.halfway.report import figures as halved_figures
from experiments.relay.transfers.lanes import Lane, LanesTopo
from experiments.relay.transfers.measure import Rates, Run, batch
from experiments.relay.transfers.plan import WINDOW_BYTES, Task, choose_tasks
from experiments.relay.transfers.report import figures
from lab.stage.stage import raised

FAR_RTTS_MS = {"direct": 100.0, "near": 45.0, "far": 50.0}


def task(chosen_by: str = "ping, ours", crowded: bool = False, lossless: bool = False) -> Task:
    return Task("US-Europe", "a", "b", "r", chosen_by, FAR_RTTS_MS, busy=crowded, lossless=lossless)


def test_ping_chooses_the_crowded_relay_and_ours_does_not() -> None:
    tasks = choose_tasks(12, {False: 0.3, True: 700.0})
    crowded = [each for each in tasks if each.busy]
    assert crowded and {each.chosen_by for each in crowded} == {"ping"}
    assert {each.relay for each in choose_tasks(12, {False: 0.3, True: 0.3}) if "ours" in each.chosen_by} > {
        crowded[0].relay
    }


def test_gains_and_errors_are_counted_by_chooser() -> None:
    def run(relayed_bps: float, chosen_by: str, crowded: bool = False, stalled: str = "") -> Run:
        moved = (Rates(4e6, 5e6), Rates(relayed_bps, relayed_bps))
        return Run(task(chosen_by, crowded), 4_000_000, 700.0 if crowded else 0.0, *moved, stalled)

    runs = [run(1e6, "ping", True), run(8e6, "ours"), run(6e6, "ping, ours"), run(1.0, "ours", stalled="on direct")]
    told = {one.what.strip(): one for one in figures(runs)}
    assert (told["ping: gain"].value, told["ping: gain"].n) == (-12.5, 2)
    assert (told["ours: gain"].value, told["ours: gain"].n) == (75, 2)
    noise = next(told[what] for what in told if what.startswith("and by more than the noise"))
    assert noise.met and noise.n == 2
    assert told["gain by a crowded relay"].value == -75
    assert told["US-Europe: direct, of equation (1)"].value == pytest.approx(100 * 4e6 / (8 * WINDOW_BYTES / 0.10012))
    assert runs[0].predicted_relayed_bps < runs[0].predicted_direct_bps < runs[1].predicted_relayed_bps


def test_halfway_gains_are_compared_with_the_prediction() -> None:
    runs = [Halved(100.0, "up", 4e6, 8e6, ""), Halved(100.0, "down", 4e6, 5e6, "")]
    assert [round(each.off) for each in runs] == [0, 60]
    told = {one.what: one for one in halved_figures([*runs, Halved(100.0, "up", 1.0, 9e9, "on near")])}
    assert told["the pair half way, 100 ms, up: gain"].value == 100
    assert told["predictions off by"].met is False


@pytest.mark.timed
def test_a_halfway_relay_is_faster_and_a_crowded_one_slower() -> None:
    with raised(LanesTopo(2)) as net:
        lanes = [Lane(net, number) for number in range(2)]
        tasks = [(task(crowded=crowded, lossless=True), 300_000) for crowded in (False, True)]
        free, crowded = batch(lanes, tasks, {False: 0.0, True: 700.0})
    assert free.gain > 10
    assert crowded.gain < -10
    assert free.predicted_direct_bps == pytest.approx(free.direct.steady_bps, rel=0.5)
