# SPDX-License-Identifier: Apache-2.0
"""The report of any experiment: its figures, rows and plot, without runs on a stalled machine."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.results import provenance
from lab.results.campaign import Campaign


def reported(
    campaign: Campaign[Any, Any],
    plan: Any,
    good: Sequence[Any],
    stalled: Sequence[Any],
    place: Path,
    capsys: pytest.CaptureFixture[str],
) -> list[list[str]]:
    """Present good and stalled runs, check the report, and return its rows."""
    assert list(campaign.figures([*good, *stalled])) == list(campaign.figures(good))
    campaign.present(plan, [*good, *stalled], place, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["runs_left_out"] == len(stalled)
    assert all(Path(plot).read_bytes().startswith(b"\x89PNG\r\n\x1a\n") for plot in document["plots"])
    with Path(document["csv"]).open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == [*campaign.header, *provenance.HEADER] and {len(row) for row in rows} == {len(header)}
    assert {tuple(row[len(campaign.header) :]) for row in rows} == {provenance.provenance()}
    return [row[: len(campaign.header)] for row in rows]
