# SPDX-License-Identifier: Apache-2.0
"""`bicast run FILE`: the controller in the foreground."""

from __future__ import annotations

import argparse
from typing import Any

from cli import undisturbed


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "run",
        help="run the controller on a gateway.yaml",
        description="Run the controller on a gateway.yaml until Ctrl-C or SIGTERM. SIGHUP reads the file again: an "
        "invalid one is refused and the last valid one stays in force. The switches keep their flows when the "
        "controller ends.",
    )
    parser.add_argument("file", metavar="FILE", help="the configuration, gateway.yaml")


def run(args: argparse.Namespace) -> int:
    with undisturbed():
        from controller.__main__ import run as run_controller

    return run_controller(args.file)
