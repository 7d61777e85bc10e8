"""`bicast experiment NAME`: one of the papers' experiments again, or the bench.

An experiment is a module that offers `run(args) -> int`; `args` has full and json. It enters a world of its own,
says how far it is on stderr, and prints what came out on stdout: tables, or with --json one document.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from cli import Failure, undisturbed
from experiments import ExperimentFailed
from experiments.running import ControllerFailed
from topologies.command import CommandFailed
from topologies.isolate import WorldError

EXPERIMENTS = {
    "transfer": ("experiments.transfer", "paper 002, tables 5 and 6, figures 4 to 9: downloads over losses of Wi-Fi"),
    "capture": ("experiments.capture", "paper 002, tables 3 and 4: what rides twice, seen at every machine"),
    "switching": ("experiments.switching", "a live download switched between two paths: the cost, how soon it acts"),
    "failover": ("experiments.failover", "a path that dies under a transfer: how long nothing comes"),
    "bench": ("bench", "all that is promised in figures, measured, with `transfer --quick` at its end"),
}


def add(subparsers: Any) -> None:
    names = "\n".join(f"  {name:10}{summary}" for name, (_, summary) in EXPERIMENTS.items())
    parser = subparsers.add_parser(
        "experiment",
        help="run one of the papers' experiments again",
        description="Run an experiment in a laboratory of its own (as root; nothing is left behind) and print what was "
        "measured beside the paper's numbers. That a promise was not met is a result too: the exit code is 0 then, and "
        "the verdict says it. Files go to results/NAME/.",
        epilog=f"experiments:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", choices=EXPERIMENTS, help=", ".join(EXPERIMENTS))
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_true", help="minutes: a part that shows it (this is the default)")
    extent.add_argument(
        "--full",
        action="store_true",
        help="hours: all that the paper measured, where an experiment has more than --quick; Ctrl-C stops it, and the "
        "next --full goes on from there",
    )
    parser.add_argument("--json", action="store_true", help="what came out as one document")


def run(args: argparse.Namespace) -> int:
    try:
        with undisturbed():
            experiment = import_module(EXPERIMENTS[args.name][0])
        code: int = experiment.run(args)
    except (ExperimentFailed, CommandFailed, ControllerFailed, WorldError) as error:
        raise Failure(str(error)) from error
    return code
