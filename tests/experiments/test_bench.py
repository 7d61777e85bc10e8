# SPDX-License-Identifier: Apache-2.0
"""The bench prints and saves each promise beside its measurement, and judges datagrams by their time of sending."""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from experiments import bench
from experiments.bench import golang, outages, report
from experiments.bench.mode_change import LATE_S, ModeChange, Round
from lab.processes.controller import TREE
from lab.results.figures import at_least, below, middle, worst
from lab.traffic.numbered import Counted


def test_an_unmet_promise_is_named_and_fails_the_bench(capsys: pytest.CaptureFixture[str]) -> None:
    met, broken, nothing = (
        middle("a", [2.0], "ms", below(3)),
        worst("  b", [0.5], "", at_least(0.85)),
        middle("c", [7], "s"),
    )
    assert report.verdict([met, nothing]) == 0
    assert capsys.readouterr().err == ""
    assert report.verdict([met, broken, nothing]) == 1
    assert capsys.readouterr().err == "bench: not met: b: 0.5, promised >= 0.85\n"


@pytest.mark.timed
def test_a_minute_of_the_bench_meets_its_promises() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "experiments.bench", "--smoke"], cwd=TREE, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_elimination_speed_is_judged_by_its_median() -> None:
    lines = [
        f"BenchmarkSpeed/native/{length}/room_4096-2   12  136.0 KiB  1.9 copy:Mpps  4.2 copy:idle-Mpps  0.4 copy:ratio"
        f"  1.2 pair:Mpps  1.8 pair:idle-Mpps  {ratio} pair:ratio"
        for length, ratio in (("64_bytes", 0.6), ("64_bytes", 0.45), ("64_bytes", 0.5), ("1400_bytes", 0.3))
    ]
    told = {one.what: one for one in golang.elimination_figures("\n".join(["goos: linux", *lines, "PASS"]))}
    small = told["packets of 64 bytes, room for 4096, firsts and their copies by turns: of the pace without a look"]
    assert (small.value, small.n, small.low, small.high, small.met) == (0.5, 3, 0.45, 0.6, True)
    large = told["packets of 1400 bytes, room for 4096, firsts and their copies by turns: of the pace without a look"]
    assert (large.value, large.met) == (0.3, False)


def test_a_flood_may_lose_no_ping() -> None:
    line = "BenchmarkHandshakeFlood/repeated_10000-2  10  1213 ns/op  56.8 core-%  {} lost-%  9995 sent/s"
    for lost, met in ((0, True), (1, False)):
        *_, processor, pings = golang.flood_figures(line.format(lost))
        assert (processor.value, pings.value, pings.met) == (56.8, lost, met)


def round_of(*datagrams: tuple[float, int]) -> Round:
    """Return a round with mode `single` from 10 s and `bicast` from 11 s. Datagrams are (sent at, arrivals)."""
    changes = [ModeChange("single", 10.0, 10.01), ModeChange("bicast", 11.0, 11.01)]
    copies = Counter({number: count for number, (_, count) in enumerate(datagrams)})
    sent_at = {number: at for number, (at, _) in enumerate(datagrams)}
    return Round(changes, Counted(len(datagrams) + 1, 0.0, copies, sent_at), 2.0, 0, 0)


def test_a_transition_ends_at_the_last_datagram_in_the_old_mode() -> None:
    each = round_of((9.99, 2), (10.002, 2), (10.004, 1), (10.006, 2), (10.008, 1), (11.003, 1), (11.02, 2))
    assert each.transitions_s("single") == [pytest.approx(0.006)]
    assert each.transitions_s("bicast") == [pytest.approx(0.003)]
    assert (each.late("single"), each.counted.lost) == (0, [7])


def test_a_copy_sent_after_the_transition_is_late() -> None:
    assert round_of((10 + LATE_S - 0.001, 2), (10 + LATE_S + 0.001, 2), (10.5, 2), (10.9, 1)).late("single") == 2


@pytest.mark.slow
def test_a_part_of_the_bench_is_saved_as_csv_and_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "DIRECTORY", tmp_path)
    monkeypatch.setattr(outages, "PORT_ROUNDS", 2)
    assert bench.run(argparse.Namespace(parts=["ports"], json=True)) == 0
    told = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "ports.json").read_text()) == told
    with (tmp_path / "ports.csv").open(newline="") as file:
        assert [row["what"] for row in csv.DictReader(file)] == [each["what"] for each in told]
    assert {each["n"] for each in told} == {2}
    assert all(0 < each["low"] <= each["value"] <= each["high"] for each in told)
