# SPDX-License-Identifier: Apache-2.0
"""`bicast experiment` lists its experiments without importing them, and runs one end to end."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from cli import USAGE
from cli import experiment as verb
from lab.processes.controller import TREE


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    verb.add(parser.add_subparsers(dest="verb"))
    return parser.parse_args(["experiment", *words])


@pytest.mark.parametrize("module", [one.module for one in verb.EXPERIMENTS.values()])
def test_each_listed_experiment_has_a_module(module: str) -> None:
    assert find_spec(module) is not None


def test_experiment_is_quick_unless_full_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert not parse("transfer").full
    assert parse("transfer", "--full", "--json").full
    with pytest.raises(SystemExit) as ended:
        parse("transfer", "--quick", "--full")
    assert ended.value.code == USAGE


def test_listing_experiments_imports_none_of_them() -> None:
    loaded = "import sys, cli.experiment; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], cwd=TREE, capture_output=True, text=True, check=True)
    names = done.stdout.split()
    assert not {"matplotlib", "mininet", *(one.module for one in verb.EXPERIMENTS.values())} & set(names)


@pytest.mark.timed
def test_capture_runs_from_the_command_line_and_all_claims_hold() -> None:
    done = subprocess.run([TREE / "bicast", "experiment", "capture", "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [claim["holds"] for claim in json.loads(done.stdout)["claims"]] == [True] * 6
