"""Everything is copied and comes once: a short run of each kind on real parts, and how their figures are come by."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from bench.figures import Figure
from bench.numbered import Counted
from experiments.live.streaming import Streamed
from experiments.once import CAMPAIGN
from experiments.once.chance import interval
from experiments.once.flows import DOWN, THIN_PPS, UP, Cut, Flowed
from experiments.once.pinging import Pinged, counted
from experiments.once.plan import FULL, OFF, ONCE, QUICK, SCENARIOS, SINGLE, Losses, Plan
from experiments.once.results import HEADER, figures
from experiments.once.runs import Run, carry_out
from experiments.once.streams import Asked, Uploaded

SHORT = Plan("short", 1, 40, (0,), (Losses(20, 0),), 0.4, 0.4, 1)
LATE = "on lte 3 of 900 packets left more than 15 ms late, the latest by 18.1 ms"
CLEAN, CUT = SCENARIOS[:2]
SELDOM = 0.1  # a copy that a loaded machine holds up for longer than the window passes; without elimination all do


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """All kinds of them, each once, whether the machine stalls or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.once.runs.ATTEMPTS", 1)
        patch.setattr("experiments.once.flows.EVERY_S", 0.4)
        patch.setattr("experiments.once.streams.STEADY_S", 0.2)
        patch.setattr("experiments.once.lab.TOLD_S", 0.2)  # none is dead for long enough to be named
        return list(carry_out(SHORT, tmp_path_factory.mktemp("once")))


def test_no_ping_is_lost_where_one_path_is_clean(runs: list[Run]) -> None:
    pings = [run for run in runs if isinstance(run, Pinged)]
    assert [run.scenario for run in pings] == list(SCENARIOS)
    assert {(run.sent, run.lost) for run in pings} == {(40, 0)}
    assert all(run.doubled < SELDOM * run.sent for run in pings if run.scenario in (CLEAN, CUT))


def test_datagrams_come_once_both_ways_and_a_path_alone_loses_its_own(runs: list[Run]) -> None:
    clean, single, off = (run for run in runs if isinstance(run, Flowed))
    assert all(not way.lost and way.doubled < SELDOM * way.sent for way in clean.ways.values())
    for run in (single, off):
        assert set(run.ways) == {UP, DOWN}
        assert all(way.lost and not way.doubled for way in run.ways.values())


def test_a_cut_takes_from_one_path_alone_and_nothing_from_both(runs: list[Run]) -> None:
    ours, alone = (run for run in runs if isinstance(run, Cut))
    assert [ours.lost(way) for way in (UP, DOWN)] == [[0], [0]]
    assert all(way.doubled < SELDOM * way.sent for way in ours.ways.values())
    assert all(sum(alone.lost(way)) > 5 for way in (UP, DOWN))


def test_questions_are_answered_and_uploads_arrive_whole_in_every_mode(runs: list[Run]) -> None:
    asked = [run for run in runs if isinstance(run, Asked)]
    assert [run.mode for run in asked] == [ONCE, SINGLE, OFF]
    assert all(0 < took_s < 60 for run in asked for took_s in run.took_s)
    uploads = [run for run in runs if isinstance(run, Uploaded)]
    assert [(run.mode, run.streamed.whole) for run in uploads] == [(ONCE, True), (SINGLE, True)]


def a_stream(sent: int, *numbers: int) -> Counted:
    """These came, in this order; number N was sent N / THIN_PPS after the moment 100."""
    return Counted(sent, 0.0, Counter(numbers), {number: 100 + number / THIN_PPS for number in numbers})


def told(*runs: Run) -> dict[str, Figure]:
    return {one.what.strip(): one for one in figures(runs)}


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ("400 packets transmitted, 400 received, 0% packet loss, time 4000ms", (400, 0, 0)),
        ("400 packets transmitted, 390 received, +7 duplicates, 2.5% packet loss, time 4000ms", (400, 10, 7)),
        ("9 packets transmitted, 0 received, +3 errors, 100% packet loss, time 9ms", (9, 9, 0)),
    ],
)
def test_what_ping_says_of_answers_and_duplicates_is_read(summary: str, expected: tuple[int, int, int]) -> None:
    assert counted(f"--- 192.168.0.2 ping statistics ---\n{summary}\n") == expected


def test_what_comes_beside_the_first_is_counted() -> None:
    stream = a_stream(5, 0, 2, 1, 2, 2, 0)
    assert (stream.lost, stream.doubled) == ([3, 4], 3)


def test_a_lost_datagram_belongs_to_the_cut_before_it() -> None:
    whole = a_stream(400, *range(400))
    # Sent after 99, 100 and 350: at 102, 102.02 and 107.02; and the first two of all.
    holed = a_stream(400, *(number for number in range(400) if number not in (0, 1, 100, 101, 351)))
    run = Cut(ONCE, (101.5, 105.5), {UP: whole, DOWN: holed}, "")
    assert (run.lost(UP), run.lost(DOWN)) == ([0, 0], [4, 1])
    assert told(run)["Wi-Fi cut and healed every 2 s, 50 datagrams/s each way; bicast, lost at a cut"].met is False


def test_a_pause_at_a_cut_is_one_that_ends_before_the_path_heals() -> None:
    reads = Streamed([9.0, 9.9, 10.05, 11.9, 12.5, 20.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], whole=True)
    assert Uploaded(ONCE, (10.0,), reads, "").pauses_s == [pytest.approx(1.85)]


def test_an_upload_s_goodput_is_that_before_the_first_cut() -> None:
    reads = Streamed([7.0, 9.0, 9.5, 10.5], [1000.0, 2000.0, 3000.0, 9000.0], whole=True)
    assert Uploaded(ONCE, (10.0, 14.0), reads, "").bps == pytest.approx(2000 * 8 / 2)


@pytest.mark.parametrize(("tries", "chance", "expected"), [(1000, 0.0, (0, 0)), (1000, 1.0, (1000, 1000))])
def test_without_chance_there_is_one_number_of_losses(tries: int, chance: float, expected: tuple[int, int]) -> None:
    assert interval(tries, chance) == expected


def test_the_interval_is_that_of_a_binomial_distribution() -> None:
    least, most = interval(100_000, 0.04)  # sigma is 62
    assert least == pytest.approx(4000 - 4.5 * 62, abs=5)
    assert most == pytest.approx(4000 + 4.5 * 62, abs=5)
    assert interval(4000, 0.0025) == (0, 27)  # 10 in the mean: skewed, and never less than none


def test_what_both_lose_is_held_against_chance_and_of_other_modes_nothing_is_promised() -> None:
    ten = Losses(10, 10)
    for lost, kept in ((10, True), (0, True), (60, False)):
        stream = a_stream(1000, *range(lost, 1000))
        those = told(*(Flowed(mode, ten, {UP: stream}, "") for mode in (ONCE, SINGLE)))
        head = "1000 datagrams, both ways, Wi-Fi losing 10 %, LTE 10 %"
        assert those[f"{head}, bicast: lost"].met is kept
        assert those[f"{head}, single: lost"].met is None
        assert those[f"{head}, single: lost"].value == pytest.approx(lost / 10)


def test_a_datagram_that_comes_twice_breaks_the_promise() -> None:
    for numbers, kept in (((0, 1), True), ((0, 1, 1), False)):
        those = told(Flowed(ONCE, Losses(0, 0), {UP: a_stream(2, *numbers)}, ""))
        assert those["duplicated in all of these in bicast"].met is kept


def test_pings_are_judged_by_the_worst_of_their_runs() -> None:
    lossy = SCENARIOS[2]
    those = list(figures([Pinged(CLEAN, 400, 0, 0, ""), Pinged(CLEAN, 400, 1, 1, ""), Pinged(lossy, 400, 0, 40, "")]))
    assert [(one.value, one.met) for one in those] == [(1, False), (1, False), (0, True), (40, True)]
    assert [one.met for one in figures([Pinged(lossy, 400, 0, 41, "")])] == [True, False]


def test_a_stalled_run_counts_nowhere_and_the_files_hold_a_line_for_each_run_and_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reads = Streamed([9.0, 10.5, 11.0], [1.0, 2.0, 3.0], whole=True)
    good: list[Run] = [
        Pinged(CLEAN, 400, 0, 0, ""),
        Flowed(ONCE, Losses(5, 5), {UP: a_stream(2, 0, 1), DOWN: a_stream(2, 1)}, ""),
        Asked(ONCE, (0.001, 0.002), ""),
        Cut(SINGLE, (100.01,), {UP: a_stream(2, 0), DOWN: a_stream(2, 0, 1)}, ""),
        Uploaded(ONCE, (10.0,), reads, ""),
    ]
    late = Pinged(CLEAN, 400, 9, 9, LATE)
    assert list(figures([*good, late])) == list(figures(good))
    CAMPAIGN.present(SHORT, [*good, late], tmp_path, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["runs_left_out"] == 1
    with (tmp_path / "short-runs.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == HEADER and len(rows) == 7
    assert rows[2][-7:] == ["down", "2", "1", "0", "", "", ""]
    assert (tmp_path / "short.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_quick_is_a_part_of_full() -> None:
    assert set(QUICK.flows) <= set(FULL.flows)
    assert len(FULL.flows) == 36 + 12
