# SPDX-License-Identifier: Apache-2.0
"""A corner of the paper's grid runs end to end: real downloads, rows, tables, plots, and continuation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.edges.http.client import Client
from experiments.transfer import measure
from experiments.transfer.measure import Row, Rows
from experiments.transfer.plan import Plan, Setting, Task
from experiments.transfer.report import Results, present
from lab.processes.controller import API
from lab.stage import ovs
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised
from lab.traffic.web import Download
from topologies.paper import BRIDGE, PaperTopo

pytestmark = pytest.mark.slow

SIZE_BYTES = 3_000_000
CUBIC = Setting("cubic", True)
TASKS = tuple(Task(CUBIC, 10, 0, how, 1) for how in ("plain", "bicast"))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Measure the rows once for all tests."""
    rows = Rows(tmp_path_factory.mktemp("transfer") / "corner.csv")
    measure.measure_missing(Plan("corner", SIZE_BYTES, TASKS), rows)
    return rows


def test_each_mode_delivers_the_whole_file_over_mptcp(rows: Rows) -> None:
    found = rows.read()
    assert [row.task for row in found] == list(TASKS)
    assert [(row.size_bytes, row.sha256_ok, row.mptcp) for row in found] == [(SIZE_BYTES, True, True)] * 2
    fastest = SIZE_BYTES * 8 / 100e6
    assert all(fastest < row.seconds < 60 for row in found)


def test_existing_rows_are_not_measured_again(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Task] = []

    def none(tasks: Iterable[Task], size_bytes: int) -> Iterator[Row]:
        asked.extend(tasks)
        return iter(())

    monkeypatch.setattr(measure, "carry_out", none)
    another = Task(CUBIC, 10, 0, "bicast", 2)
    measure.measure_missing(Plan("corner", SIZE_BYTES, (*TASKS, another)), rows)
    assert asked == [another]


def test_a_download_without_mptcp_is_repeated(rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = Rows(tmp_path / "rows.csv")
    again.append(Row(TASKS[0], 1.0, SIZE_BYTES, sha256_ok=True, mptcp=False))
    fresh = Row(TASKS[0], 2.0, SIZE_BYTES, sha256_ok=True, mptcp=True)
    monkeypatch.setattr(measure, "carry_out", lambda tasks, size_bytes: iter([fresh] if TASKS[0] in tasks else []))
    measure.measure_missing(Plan("corner", SIZE_BYTES, TASKS[:1]), again)
    results = Results(again.read(), SIZE_BYTES)
    reading = results.reading(CUBIC, (10, 0), "plain")
    assert reading is not None
    assert (reading.runs, results.bad) == ((2.0,), 1)


def test_the_document_names_the_files_and_the_verdicts(rows: Rows, capsys: pytest.CaptureFixture[str]) -> None:
    present(Plan("corner", SIZE_BYTES, TASKS), rows, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["csv"], len(told["plots"])) == (str(rows.file), 1)
    assert [one["met"] for one in told["verdicts"]] == [None] * 4  # this corner has no promise
    (cell,) = told["cells"]
    assert cell["paper_seconds"] == {"plain": 43.4, "bicast": 42.2}
    assert (cell["plain"]["n"], cell["bicast"]["n"]) == (1, 1)


def test_each_download_runs_with_the_settings_of_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    stages: list[Stage] = []
    found = []

    @contextmanager
    def noticed(topology: PaperTopo, controller: str) -> Iterator[Stage]:
        with raised(topology, controller=controller) as net:
            stages.append(net)
            yield net

    def looked(client: Machine, url: str, timeout_s: float) -> Download:
        wifi, server = stages[-1].uplink("wifi"), stages[-1].machine("server")
        losses = (wifi.forward.shape.loss_percent, wifi.backward.shape.loss_percent)
        (flagged,) = re.findall(r"id 2 subflow( backup)?", client.run("ip", "mptcp", "endpoint", "show").stdout)
        (sender,) = re.findall(r"congctl lock (\w+)", server.run("ip", "route", "show", "default").stdout)
        (mode,) = {one["mode"] for one in Client(API).get("status")["terminals"]}
        # The client's TCP leaves through this many buckets of an ALL group.
        most = max(line.count("bucket=") for line in ovs.ofctl("dump-groups", BRIDGE).splitlines())
        found.append((*losses, sender, bool(flagged), mode, most))
        return Download(1.0, 1000, "", True)

    monkeypatch.setattr(measure, "raised", noticed)
    monkeypatch.setattr(measure, "download", looked)
    both = Setting("bbr", False)
    tasks = [Task(both, 10, 5, "plain", 1), Task(both, 0, 5, "bicast", 1), Task(CUBIC, 7, 0, "bicast", 1)]
    rows = list(measure.carry_out(tasks, 1000))
    assert [row.task for row in rows] == tasks
    assert not any(row.sha256_ok for row in rows)
    assert found == [
        (10, 5, "bbr", False, "off", 1),
        (0, 5, "bbr", False, "bicast", 2),
        (7, 0, "cubic", True, "bicast", 2),
    ]
    assert len(stages) == 2
