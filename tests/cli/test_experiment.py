# SPDX-License-Identifier: Apache-2.0
"""`bicast experiment` lists its experiments without importing them, and runs one end to end."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from cli import Failure, report
from cli import experiment as verb
from lab.processes.controller import TREE


def test_listing_experiments_imports_none_of_them() -> None:
    loaded = "import sys, cli.experiment; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], cwd=TREE, capture_output=True, text=True, check=True)
    modules = [one.module for one in verb.EXPERIMENTS.values()]
    assert all(map(find_spec, modules)) and not {"matplotlib", "mininet", *modules} & set(done.stdout.split())


def test_an_installed_laboratory_has_no_pages_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "IN_TREE", False)
    with pytest.raises(Failure, match="run it in a clone"):
        report.run(argparse.Namespace())


@pytest.mark.timed
def test_capture_runs_from_the_command_line_and_all_claims_hold() -> None:
    done = subprocess.run([TREE / "bicast", "experiment", "capture", "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["switched_by"]
    assert {switcher: [claim["holds"] for claim in one["claims"]] for switcher, one in found.items()} == {
        "client": [True] * 6,
        "server": [True] * 6,
    }
