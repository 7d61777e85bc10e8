# SPDX-License-Identifier: Apache-2.0
"""Uploads through one access point are counted and judged. Runs on a stalled machine do not count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.air import CAMPAIGN
from experiments.air.endpoints import Received, Sampled, received, sampled
from experiments.air.laboratory import Laboratory, laboratory
from experiments.air.measure import Run, run_upload
from experiments.air.plan import (
    IDEAL_GATEWAY,
    IDEAL_TERMINALS,
    JB_TERMINALS,
    MIX,
    NOBODY,
    OFF,
    SHORT,
    Scene,
    Task,
    Variant,
)
from experiments.air.report import figures, summary
from lab.links.emulator import STALL_MS, Lateness
from lab.stage.failure import ExperimentFailed
from tests.experiments.reports import reported
from topologies.access_point import AIR_BPS

TEN = Scene(10, "64")


@pytest.mark.timed
def test_an_upload_is_measured_at_the_receiver(tmp_path: Path) -> None:
    with laboratory(NOBODY, tmp_path, terminals=3) as lab:
        run = run_upload(lab, Task(Scene(3, MIX), OFF), 2.5)
    assert 0.3 * AIR_BPS < run.total_bps < 1.05 * AIR_BPS  # data behind a filled hole arrives at once
    assert len(run.bps) == len(run.sampled) == 3 and all(run.bps)
    assert [least > 200 for least in run.least_rtt_ms] == [False, True, False]
    assert all(least >= 4 for least in run.least_rtt_ms) and run.ping_ms >= 4
    assert 0.3 < run.busy < 1.1
    assert run.is_held and run.capped == 0


def a_run(scene: Scene, variant: Variant, mbps: float, **changes: Any) -> Run:
    count = scene.terminals
    run = Run(
        task=Task(scene, variant),
        seconds=30.0,
        bps=(mbps * 1e6 / count,) * count,
        sampled=(Sampled(srtt_ms=128.0, min_rtt_ms=64.0, cwnd=12.0, retransmits=0),) * count,
        least_rtt_ms=(64.0,) * count,
        ping_ms=70.0,
        newcomer_s=1.5,
        busy=1.0,
        capped=0 if variant.enforcer == NOBODY else count,
        stalled="",
    )
    return replace(run, **changes)


def judged(*runs: Run) -> dict[str, bool | None]:
    """Return the verdicts by figure, from the last variant that has the figure."""
    return {one.what.strip(): one.met for one in figures(runs)}


def test_the_ideal_window_is_compared_with_no_caps() -> None:
    off = a_run(TEN, OFF, 18.0)
    assert judged(off, a_run(TEN, IDEAL_TERMINALS, 17.7))["of off's"] is True
    assert judged(off, a_run(TEN, IDEAL_TERMINALS, 17.6))["of off's"] is False
    assert "of off's" not in judged(off)
    assert judged(a_run(TEN, IDEAL_TERMINALS, 18.4))["of what the air brings"] is True
    assert judged(a_run(TEN, IDEAL_TERMINALS, 18.3))["of what the air brings"] is False
    slow = (Sampled(193.0, 64.0, 12.0, 0),) * 10
    assert judged(a_run(TEN, IDEAL_TERMINALS, 18.0))["srtt / least RTT"] is True
    assert judged(a_run(TEN, IDEAL_TERMINALS, 18.0, sampled=slow))["srtt / least RTT"] is False
    assert judged(a_run(TEN, JB_TERMINALS, 18.0, sampled=slow))["srtt / least RTT"] is None
    unequal = (3e6, *(1e6,) * 9)
    assert judged(a_run(TEN, IDEAL_TERMINALS, 18.0, bps=unequal))["Jain's index"] is False


@pytest.mark.parametrize(("terminals", "kept", "broken"), [(1, 6.8, 6.6), (10, 12.7, 12.5)])
def test_under_loss_the_floor_is_judged_by_the_gain(terminals: int, kept: float, broken: float) -> None:
    lossy = Scene(terminals, "256", loss_percent=1.0)
    off = a_run(lossy, OFF, 0.67 if terminals == 1 else 6.3)
    assert judged(off, a_run(lossy, IDEAL_TERMINALS, kept))["of off's"] is True
    assert judged(off, a_run(lossy, IDEAL_TERMINALS, broken))["of off's"] is False
    assert judged(off, a_run(lossy, IDEAL_GATEWAY, broken))["of off's"] is None  # the gateway has no floor
    near = replace(lossy, rtt="64")  # reported without a verdict
    assert judged(a_run(near, OFF, 6.0), a_run(near, IDEAL_TERMINALS, 6.0))["of off's"] is None


def test_unenforced_caps_are_reported() -> None:
    forgotten = a_run(TEN, IDEAL_TERMINALS, 18.0, capped=9)
    assert judged(forgotten)["runs whose caps were not held as wanted"] is False
    assert "HELD at 9 terminals" in str(forgotten)
    assert "ideal, terminals (NOT HELD)" in summary([forgotten])
    assert "NOT HELD" not in summary([a_run(TEN, OFF, 18.0)])


def test_more_than_one_late_packet_in_1000_spoils_a_link() -> None:
    late = {name: Lateness(3.0, 4000, 10, 20, 4900, 0) for name in ("s4", "s16", "s64", "s256")}
    net = SimpleNamespace(uplink=lambda name: SimpleNamespace(lateness=lambda: late[name]))
    lab = Laboratory(net, None)  # type: ignore[arg-type]
    late["air"] = Lateness(3.0, 4000, 10, 20, 17_100, 4)
    assert lab.spoilt() == ""
    late["air"] = Lateness(3.0, 4000, 10, 20, 17_100, 5)
    assert lab.spoilt() == f"on air 5 of 4000 packets left more than {STALL_MS} ms late, the latest by 17.1 ms"


def test_arrivals_are_counted_by_sender_over_any_span() -> None:
    reads = [1.0, 11.0, 1000.0, 2.0, 12.0, 500.0, 2.0, 11.0, 3000.0, 4.0, 11.0, 1000.0]
    first, second, third = received(reads, ["192.168.50.11", "192.168.50.12", "192.168.50.13"])
    assert (first.bps(0.5, 4.5), second.bps(0.0, 4.0), third.bps(0.0, 4.0)) == (10_000, 1000, 0)
    assert first.bps(1.5, 3.5) == 12_000


def test_a_newcomer_reaches_its_share_when_it_lasts() -> None:
    moments = [10 + number / 10 for number in range(40)]
    before = [0.0]
    for number in range(40):  # 80 kbit/s in the first second, then ten times that
        before.append(before[-1] + (1000 if number < 10 else 10_000))
    come = Received(moments, before)
    assert come.reaches(700_000, 10.0, 0.5) == pytest.approx(1.5, abs=0.11)
    assert come.reaches(900_000, 10.0, 0.5) is None


def test_socket_samples_outside_the_span_are_ignored() -> None:
    rows = [(moment, 5000.0 + 1000 * moment, 4000.0, 10.0, 3 * moment) for moment in range(10)]
    seen = sampled([value for row in rows for value in row], 1, 5, 9)
    assert seen == Sampled(srtt_ms=12.0, min_rtt_ms=4.0, cwnd=10.0, retransmits=27)
    with pytest.raises(ExperimentFailed, match="only 0 samples"):
        sampled([], 1, 0, 1)


def test_the_report_has_runs_that_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = [a_run(TEN, OFF, 18.0), a_run(TEN, IDEAL_TERMINALS, 18.1), a_run(Scene(10, "256", 1, 1.0), OFF, 6.0)]
    late = a_run(TEN, OFF, 1.0, stalled="on air 9 of 10 packets")
    assert len(reported(CAMPAIGN, SHORT, good, [late], tmp_path, capsys)) == 3
