# SPDX-License-Identifier: Apache-2.0
"""The cap tables equal the printed tables of paper 000 in each cell, and rulings follow them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from controller.model.config import CapTables
from controller.policy.caps.windows import Bounds, Case, by_ratio, by_terminals, row_of
from tests.controller.sharing_terminals import AccessPointModel, TcpStream, address, equal, paper

PRINTED = Path(__file__).parents[4] / "experiments" / "paper"
RTT_US = {Case.A: 16_000, Case.B: 256_000}
CASES = [(tables, case) for tables in CapTables for case in Case]


def rows(name: str) -> list[dict[str, str]]:
    with (PRINTED / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


BY_TERMINALS = rows("000_table2_caps_by_terminals.csv")
BY_RATIO = rows("000_table3_caps_by_rtt_ratio.csv")


def printed(row: dict[str, str], tables: CapTables, case: Case) -> Bounds:
    of = f"{tables.value}_{case.name.lower()}"
    return Bounds(int(row[f"{of}_max"]), int(row[f"{of}_min"]))


def ruled(tables: CapTables, case: Case, terminals: int, ratio: float) -> Bounds:
    rtt_us = RTT_US[case]
    ruling = AccessPointModel(paper(tables)).passes(
        equal(terminals, TcpStream(rtt_us=rtt_us, srtt_us=round(rtt_us * ratio)))
    )
    (window,) = ruling.caps[address(0)].windows.values()
    return Bounds(window.most, window.least)


@pytest.mark.parametrize(("tables", "case"), CASES)
def test_table_2_matches_the_paper_in_every_cell(tables: CapTables, case: Case) -> None:
    assert len(BY_TERMINALS) == 10
    for row in BY_TERMINALS:
        assert by_terminals(tables, case, int(row["terminals"])) == printed(row, tables, case), row


@pytest.mark.parametrize(("tables", "case"), CASES)
def test_table_3_matches_the_paper_up_to_the_next_ratio(tables: CapTables, case: Case) -> None:
    assert len(BY_RATIO) == 10 and row_of(case, 0.7) == 0
    begins = [float(row[f"{tables.value}_{case.name.lower()}_ratio"]) for row in BY_RATIO]
    for row, at, end in zip(BY_RATIO, begins, [*begins[1:], 1e9], strict=True):
        for ratio in (at, (at + end) / 2, end * 0.9999):
            assert by_ratio(tables, case, row_of(case, ratio)) == printed(row, tables, case), (row, ratio)


@pytest.mark.parametrize(("tables", "case"), CASES)
def test_ruling_uses_the_smaller_table_value_for_each_bound(tables: CapTables, case: Case) -> None:
    for number in BY_TERMINALS:
        for growth in BY_RATIO:
            terminals, ratio = int(number["terminals"]), float(growth[f"{tables.value}_{case.name.lower()}_ratio"])
            expected = printed(number, tables, case).smaller(printed(growth, tables, case))
            assert ruled(tables, case, terminals, ratio) == expected, (terminals, ratio)


@pytest.mark.parametrize(("tables", "case"), CASES)
def test_window_shrinks_beyond_ten_terminals_to_two_segments(tables: CapTables, case: Case) -> None:
    ten = by_terminals(tables, case, 10)
    twenty = by_terminals(tables, case, 20)
    assert twenty == Bounds(max(2, ten.most // 2), max(1, ten.least // 2))
    before = ten
    for active in range(11, 300):
        bounds = by_terminals(tables, case, active)
        assert bounds.smaller(before) == bounds and bounds.most >= 2 and bounds.least >= 1
        before = bounds


def test_row_improves_only_with_a_margin_and_worsens_at_once() -> None:
    air = AccessPointModel(paper(CapTables.JELLY_BEAN))

    def most(ratio: float) -> int | None:
        streams = equal(1, TcpStream(rtt_us=10_000, srtt_us=round(ratio * 10_000)))
        return air.passes(streams).caps[address(0)].most_segments

    assert most(14.9) == 80
    assert most(15.1) == 60
    assert most(14.9) == 60, "15 and 14.9 in consecutive reports count as equal"
    assert most(14.2) == 80
