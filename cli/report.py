# SPDX-License-Identifier: Apache-2.0
"""`bicast report`: write the page of the papers, docs/papers.md, from what experiments left."""

from __future__ import annotations

import argparse
from typing import Any

from cli import Failure, undisturbed
from lab.results import IN_TREE
from lab.stage.failure import ExperimentFailed


def add(subparsers: Any) -> None:
    subparsers.add_parser(
        "report",
        help="write docs/papers.md: the papers beside what was measured",
        description="Publish the rows that `bicast experiment transfer --full` left in results/, and write "
        "docs/papers.md, its pictures, and results/papers.html, which needs no other file. What no file proves is "
        "shown as missing.",
    )


def run(args: argparse.Namespace) -> int:
    if not IN_TREE:
        raise Failure(
            "report writes docs/ of the source tree, which an installed laboratory does not have; run it in a clone"
        )
    with undisturbed():
        from experiments import report
    try:
        return report.write()
    except ExperimentFailed as error:
        raise Failure(str(error)) from error
