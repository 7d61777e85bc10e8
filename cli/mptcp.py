# SPDX-License-Identifier: Apache-2.0
"""`bicast mptcp`: become the agent's command (mptcp/command)."""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path
from typing import Any

from cli import Failure

AGENT = Path(__file__).resolve().parent.parent / "build" / "bicast-agent"

VERBS = """\
verbs:
  list      show every MPTCP connection with its paths
  watch     show the list again each second until Ctrl-C
  monitor   print events of connections as JSON lines until Ctrl-C
  switch    move connections to another of their paths
  add       open another path for a connection, and wait until it is established
  remove    close one path of a connection
  setup     make MPTCP leave a dead path fast, or undo that (--undo)

`./bicast mptcp VERB --help` explains one verb; `./bicast mptcp help` lists the exit codes.
"""


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "mptcp",
        help="show and move the live MPTCP connections of this machine",
        description="Show and move the live MPTCP connections of this machine from outside the processes that "
        "own them. No controller is needed, and nothing is patched.",
        epilog=VERBS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="VERB ...", help="what to do, and its arguments")


def run(args: argparse.Namespace) -> int:
    ours = signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # exec would keep Python's ignored SIGPIPE
    try:
        os.execv(AGENT, [AGENT.name, "mptcp", *args.words])
    except OSError as error:
        signal.signal(signal.SIGPIPE, ours)
        raise Failure(f"{AGENT} cannot be run ({error.strerror}); it is built by `make setup`") from error
