# SPDX-License-Identifier: Apache-2.0
"""Every packet is copied and arrives once: a short run of each kind on real parts, and their figures."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.once import CAMPAIGN
from experiments.once.datagrams import DOWN, THIN_PPS, UP, CutRun, DatagramRun, PingRun, ping_counts
from experiments.once.measure import AddressChangeRun, DeathRun, FloodRun, Run, TunnelRun, carry_out
from experiments.once.plan import OFF, ONCE, SCENARIOS, SINGLE, TWICE, Losses, Plan
from experiments.once.report import figures, interval
from experiments.once.transfers import BlackoutRun, BulkRun, RequestRun, UploadRun
from lab.results.figures import Figure
from lab.traffic.numbered import Counted
from lab.traffic.streaming import Streamed
from tests.experiments.reports import reported

SHORT = Plan("short", 1, 40, (0,), (Losses(20, 0),), 0.4, 0.4, 1, 1, 5_000, 0.5, 1, 1, 1)
LATE = "on lte 3 of 900 packets left more than 15 ms late, the latest by 18.1 ms"
CLEAN = SCENARIOS[0]
SELDOM = 0.1  # a loaded machine delays some copies beyond the window; without elimination, all arrive


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Return one run of each kind, even from a stalled machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.once.measure.ATTEMPTS", 1)
        patch.setattr("experiments.once.datagrams.CUT_S", 0.4)
        patch.setattr("experiments.once.transfers.UPLOAD_STEADY_S", 0.2)
        patch.setattr(
            "experiments.laboratories.two_sites.TOLD_S", 0.2
        )  # only one path is dead for long enough to be reported
        patch.setattr("experiments.once.transfers.DOWNLOAD_BYTES", 4_000_000)
        patch.setattr("experiments.once.transfers.BLACK_S", 0.6)
        patch.setattr("experiments.once.transfers.BULK_STEADY_S", 0.2)
        patch.setattr("experiments.once.measure.AROUND_S", 0.3)
        return list(carry_out(SHORT, tmp_path_factory.mktemp("once")))


@pytest.mark.timed
def test_a_cut_loses_packets_only_without_copies(runs: list[Run]) -> None:
    ours, alone = (run for run in runs if isinstance(run, CutRun))
    assert [ours.lost(way) for way in (UP, DOWN)] == [[0], [0]]
    assert all(way.duplicates < SELDOM * way.sent for way in ours.ways.values())
    assert all(sum(alone.lost(way)) > 5 for way in (UP, DOWN))


@pytest.mark.timed
def test_requests_and_uploads_complete_in_every_mode(runs: list[Run]) -> None:
    run_requests = [run for run in runs if isinstance(run, RequestRun)]
    assert [run.mode for run in run_requests] == [ONCE, SINGLE, OFF]
    assert all(0 < took_s < 60 for run in run_requests for took_s in run.took_s)
    uploads = [run for run in runs if isinstance(run, UploadRun)]
    assert [(run.mode, run.queue_ms) for run in uploads] == [(ONCE, 48), (ONCE, 120), (SINGLE, 120)]
    assert all(run.streamed.whole for run in uploads)


@pytest.mark.timed
def test_elimination_loses_no_packet_of_a_flood(runs: list[Run]) -> None:
    (deluge,) = (run for run in runs if isinstance(run, FloodRun))
    assert (deluge.sent, deluge.lost_by_elimination) == (5_000, 0)
    assert deluge.delivered + deluge.lost_by_both == 5_000


@pytest.mark.timed
def test_dsacks_rise_only_without_elimination(runs: list[Run]) -> None:
    bulk = [run for run in runs if isinstance(run, BulkRun)]
    assert [(run.how, run.way, run.whole) for run in bulk] == [
        (how, way, True) for how in (ONCE, SINGLE, TWICE) for way in (UP, DOWN)
    ]
    dsacks = {(run.how, run.way): run.per_1000_segments(run.dsacks) for run in bulk}
    for way in (UP, DOWN):
        assert dsacks[TWICE, way] > max(dsacks[ONCE, way], dsacks[SINGLE, way])


@pytest.mark.timed
def test_a_download_with_copies_stalls_less_in_a_blackout(runs: list[Run]) -> None:
    ours, alone = (run for run in runs if isinstance(run, BlackoutRun))
    assert ours.streamed.whole and alone.streamed.whole
    assert ours.stall_s < alone.stall_s > 0.6
    assert alone.wire_percent > 100


def a_stream(sent: int, *numbers: int) -> Counted:
    """Return these arrivals in this order. Number N was sent at 100 + N / THIN_PPS."""
    return Counted(sent, 0.0, Counter(numbers), {number: 100 + number / THIN_PPS for number in numbers})


def judged(*runs: Run) -> dict[str, Figure]:
    return {one.what.strip(): one for one in figures(runs)}


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ("400 packets transmitted, 400 received, 0% packet loss, time 4000ms", (400, 0, 0)),
        ("400 packets transmitted, 390 received, +7 duplicates, 2.5% packet loss, time 4000ms", (400, 10, 7)),
        ("9 packets transmitted, 0 received, +3 errors, 100% packet loss, time 9ms", (9, 9, 0)),
    ],
)
def test_ping_counts_reads_losses_and_duplicates(summary: str, expected: tuple[int, int, int]) -> None:
    assert ping_counts(f"--- 192.168.0.2 ping statistics ---\n{summary}\n") == expected


def test_a_lost_datagram_belongs_to_the_cut_before_it() -> None:
    whole = a_stream(400, *range(400))
    # Lost after 99, 100 and 350: sent at 102, 102.02 and 107.02; and the first two.
    holed = a_stream(400, *(number for number in range(400) if number not in (0, 1, 100, 101, 351)))
    run = CutRun(ONCE, (101.5, 105.5), {UP: whole, DOWN: holed}, "")
    assert (run.lost(UP), run.lost(DOWN)) == ([0, 0], [4, 1])
    assert judged(run)["Wi-Fi cut and healed every 2 s, 50 datagrams/s each way; bicast, lost at a cut"].met is False


def test_the_pause_limit_is_the_same_for_both_queue_lengths() -> None:
    for queue_ms, pause_s, met in ((48, 0.099, True), (48, 0.101, False), (120, 0.121, False), (120, 0.099, True)):
        reads = Streamed([9.0, 10.0, 10.0 + pause_s], [1.0, 2.0, 3.0], whole=True)
        name = f"bicast, {queue_ms} ms waiting on LTE, longest pause at a cut"
        assert judged(UploadRun(ONCE, queue_ms, (10.0,), reads, ""))[name].met is met


def test_the_interval_is_that_of_a_binomial_distribution() -> None:
    least, most = interval(100_000, 0.04)  # sigma is 62
    assert least == pytest.approx(4000 - 4.5 * 62, abs=5)
    assert most == pytest.approx(4000 + 4.5 * 62, abs=5)
    assert interval(4000, 0.0025) == (0, 27)  # a mean of 10: skewed, and never below 0


def test_losses_on_both_paths_are_judged_against_chance() -> None:
    ten = Losses(10, 10)
    for lost, kept in ((10, True), (0, True), (60, False)):
        stream = a_stream(1000, *range(lost, 1000))
        those = judged(*(DatagramRun(mode, ten, {UP: stream}, "") for mode in (ONCE, SINGLE)))
        head = "1000 datagrams, both ways, Wi-Fi losing 10 %, LTE 10 %"
        assert those[f"{head}, bicast: lost"].met is kept
        assert those[f"{head}, single: lost"].met is None
        assert those[f"{head}, single: lost"].value == pytest.approx(lost / 10)


def test_a_duplicate_datagram_breaks_the_promise() -> None:
    for numbers, kept in (((0, 1), True), ((0, 1, 1), False)):
        those = judged(DatagramRun(ONCE, Losses(0, 0), {UP: a_stream(2, *numbers)}, ""))
        assert those["duplicated in all of these in bicast"].met is kept


def test_pings_are_judged_by_their_worst_run() -> None:
    lossy = SCENARIOS[2]
    those = list(
        figures([PingRun(CLEAN, 400, 0, 0, ""), PingRun(CLEAN, 400, 1, 1, ""), PingRun(lossy, 400, 0, 40, "")])
    )
    assert [(one.value, one.met) for one in those] == [(1, False), (1, False), (0, True), (40, True)]
    assert [one.met for one in figures([PingRun(lossy, 400, 0, 41, "")])] == [True, False]


def test_the_files_have_a_line_for_each_run_and_direction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reads = Streamed([9.0, 10.5, 11.0], [1.0, 2.0, 3.0], whole=True)
    good: list[Run] = [
        PingRun(CLEAN, 400, 0, 0, ""),
        DatagramRun(ONCE, Losses(5, 5), {UP: a_stream(2, 0, 1), DOWN: a_stream(2, 1)}, ""),
        RequestRun(ONCE, (0.001, 0.002), ""),
        CutRun(SINGLE, (100.01,), {UP: a_stream(2, 0), DOWN: a_stream(2, 0, 1)}, ""),
        UploadRun(ONCE, 48, (10.0,), reads, ""),
        A_DELUGE,
        BulkRun(TWICE, UP, 9e6, 1000, 200, 5, 1, True, ""),
        BlackoutRun(ONCE, 9.5, 6, reads, ""),
        DeathRun(1.5, {"home": 0.1, "far": 0.2}, "", ""),
        TunnelRun(BulkRun(ONCE, UP, 9e6, 1000, 200, 5, 1, True, ""), 1450),
        AddressChangeRun(ONCE, 0.5, {UP: a_stream(2, 0, 1), DOWN: a_stream(2, 1)}, ""),
    ]
    late = PingRun(CLEAN, 400, 9, 9, LATE)
    rows = reported(CAMPAIGN, SHORT, good, [late, TunnelRun(late, 1450)], tmp_path, capsys)
    assert len(rows) == 16
    assert rows[2][3:7] == ["down", "2", "1", "0"]


A_DELUGE = FloodRun(1000, 2, 998, 0, 3, 1, 0, 4, 500.0, 4096, 8192, 0.5)


def test_a_packet_lost_by_elimination_breaks_the_promise() -> None:
    for lost in (0, 1):
        those = judged(replace(A_DELUGE, lost_by_elimination=lost))
        head = "1000 packets of 1000 flows, skew 0 to 200 ms, jitter, bursts of loss: lost by elimination"
        assert those[head].met is (lost == 0)


def test_a_death_is_judged_by_slowest_report_and_slowest_switch() -> None:
    those = judged(DeathRun(1.0, {"home": 0.1, "far": 0.2}, "", ""), DeathRun(2.1, {"home": 0.1, "far": 1.1}, "", ""))
    assert those["Wi-Fi dies silently: told after"].met is False
    assert those["then out of all groups at home within"].met is True
    assert those["then out of all groups at far within"].met is False
