# SPDX-License-Identifier: Apache-2.0
"""The comparison with other projects counts losses and pauses, sorts its rows and judges its promises."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import peers
from experiments.peers import measure
from experiments.peers.measure import Run, carry_out
from experiments.peers.plan import FAULTS, QUICK, QUIET, SIZES
from experiments.peers.report import promises, sorted_rows, table
from experiments.peers.traffic import Answers, Flow, disturbed
from experiments.peers.variants import CLEAR, OURS, VARIANTS
from lab.stage.failure import ExperimentFailed

PEER = "engarde"
MET = {f"{fault.key}_lost": 0.0 for fault in FAULTS} | {f"{fault.key}_gap{QUIET}": 11.0 for fault in FAULTS}
RATES = {f"rate_{size}": 9000.0 for size in SIZES}


def a_run(variant: str, number: int = 1, **values: float) -> Run:
    return Run(variant, number, MET | RATES | values, ())


def a_flow(*lost: int, late: int = -1, late_s: float = 0.0) -> Flow:
    """Return ten seconds of a call from moment 100 on, 30 ms on their way."""
    arrivals = [(at, 100 + at / 50, 100.03 + at / 50 + late_s * (at == late)) for at in range(500) if at not in lost]
    return Flow(50, 500, arrivals)


def test_a_datagram_counts_in_the_span_in_which_it_was_sent() -> None:
    flow = a_flow(0, 99, 100, 101, 499)
    assert flow.lost(99.0, 111.0) == (5, 500)
    assert flow.lost(101.99, 102.99) == (2, 50)
    assert flow.lost(105.0, 106.0) == (0, 50)


def test_all_datagrams_are_lost_without_an_arrival() -> None:
    assert Flow(50, 500).lost(100.0, 104.0) == (200, 200)
    assert Flow(50, 500).gap_ms(100.0, 104.0) == pytest.approx(3980)


def test_a_gap_counts_beyond_the_senders_interval() -> None:
    assert a_flow().gap_ms(101.0, 102.0) == pytest.approx(0, abs=0.001)
    assert a_flow(60, 61).gap_ms(101.0, 102.0) == pytest.approx(40)
    assert a_flow(late=60, late_s=0.015).gap_ms(101.0, 102.0) == pytest.approx(15)


def test_a_senders_own_pause_is_no_gap() -> None:
    flow = a_flow()
    flow.arrivals = [(at, sent + 3 * (at > 60), received + 3 * (at > 60)) for at, sent, received in flow.arrivals]
    assert flow.gap_ms(101.0, 109.0) == pytest.approx(0, abs=0.001)


def test_a_short_stall_explains_a_short_gap_only() -> None:
    stalls = [(101.235, 101.245)]
    assert a_flow(60, 61).gap_ms(101.0, 102.0, stalls) == pytest.approx(0, abs=0.001)
    assert a_flow(*range(60, 160)).gap_ms(101.0, 104.0, stalls) == pytest.approx(2000)
    assert disturbed(101.25, 101.27, stalls), "the backlog of a stall"
    assert not disturbed(101.26, 101.28, stalls)


def test_an_answer_counts_in_each_span_in_which_it_was_awaited() -> None:
    answers = Answers([(100.0, 0.02), (100.5, 3.0), (103.6, 0.02)])
    assert answers.ms(101.0, 102.0) == pytest.approx([3000])
    assert answers.ms(103.0, 104.0) == pytest.approx([3000, 20])


def test_rows_in_which_a_peer_is_better_stand_first() -> None:
    runs = [a_run(OURS, call_lost=0.1, bulk_up=30.0), a_run(PEER, call_lost=0.2, bulk_up=40.0)]
    assert next(row.key for row, _ in sorted_rows(runs)) == "bulk_up"
    lines = table(runs).partition("\n\n")[0].splitlines()
    assert [line.startswith("<") for line in lines[1:]] == [True, *[False] * (len(lines) - 2)]
    assert lines[1].split()[-2:] == ["30", "40"]


def test_clear_tunnels_are_no_peer() -> None:
    runs = [a_run(OURS), a_run(CLEAR, rate_200=20000.0), a_run(PEER)]
    assert not [line for line in table(runs).partition("\n\n")[0].splitlines() if line.startswith("<")]


@pytest.mark.parametrize(
    ("values", "broken"),
    [
        ({}, []),
        ({"black_lost": 1.0}, [f"{OURS}, used path black for 30 s: lost"]),
        ({f"down_gap{QUIET}": 20.5}, [f"{OURS}, used link down: longest gap, no stalls"]),
        ({"rate_200": 5000.0}, ["200 bytes: packets/s, encrypted / clear"]),
    ],
)
def test_a_broken_promise_is_named_and_ends_with_1(
    values: dict[str, float], broken: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(*_: object) -> Iterator[Run]:
        yield from (a_run(OURS, **values), a_run(CLEAR), a_run(PEER, down_lost=9.0, rate_200=1.0))

    monkeypatch.setattr(peers, "carry_out", measured)
    monkeypatch.setattr(peers, "DIRECTORY", tmp_path)
    assert peers.run(argparse.Namespace(full=False, json=False)) == int(bool(broken))
    with (tmp_path / "quick.csv").open(newline="", encoding="utf-8") as file:
        missed = [row["what"] for row in csv.DictReader(file) if row["met"] == "False"]
    assert len(missed) == len(broken) and all(map(str.startswith, missed, broken))


def test_full_publishes_all_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "carry_out", lambda *_: iter([a_run(OURS, answer_p99=60.0), a_run(CLEAR)]))
    monkeypatch.setattr(peers, "DIRECTORY", tmp_path)
    monkeypatch.setattr(peers, "DOCS", tmp_path)
    (tmp_path / "results").mkdir()
    assert peers.run(argparse.Namespace(full=True, json=True)) == 0
    published = (tmp_path / "results" / "peers.csv").read_text(encoding="utf-8")
    assert f'"lossy: 1 kB answer, p99: {OURS}",60.0,ms,1,60.0,60.0,,' in published


def test_promises_need_no_round_with_each_fault() -> None:
    runs = [Run(OURS, 1, MET | RATES, ()), Run(OURS, 2, RATES, ())]
    assert {each.n for each in promises(runs)} == {1}


def test_a_failed_part_of_ours_breaks_a_promise() -> None:
    found = {each.what: each.met for each in promises([a_run(OURS, failed=0.0), a_run(OURS, 2, failed=1.0)])}
    assert found[f"{OURS}: parts that failed"] is False


def test_a_failed_part_is_counted_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ExperimentFailed("no answer")

    monkeypatch.setattr(measure, "sampled_stalls", lambda: nullcontext([]))
    monkeypatch.setattr(measure, "_shaped", fail)
    monkeypatch.setattr(measure, "_unshaped", lambda *_: measure._Measured({"rate_200": 1.0}, {}, {}))
    (run,) = carry_out(QUICK, tmp_path, VARIANTS[:1])
    assert run.values == {"failed": 1.0, "rate_200": 1.0}


def test_a_variant_without_its_programs_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "_run", lambda _plan, variant, number, _logs: a_run(variant.name, number))
    absent = replace(VARIANTS[2], programs=("engarde-client", "no-such-program"))
    runs = list(carry_out(replace(QUICK, rounds=2), tmp_path, (VARIANTS[0], absent, VARIANTS[4])))
    assert [(run.number, run.variant) for run in runs] == [
        (number, variant.name) for number in (1, 2) for variant in (VARIANTS[0], VARIANTS[4])
    ]
    assert "no-such-program; `make peers` builds it" in capsys.readouterr().err
