# SPDX-License-Identifier: Apache-2.0
"""`bicast mptcp`: becomes the agent's own command, whose words these are (mptcp/command)."""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path
from typing import Any

from cli import Failure

AGENT = Path(__file__).resolve().parent.parent / "build" / "bicast-agent"

WORDS = """\
words:
  list     show every MPTCP connection with its paths
  watch    show the same, redrawn each second until Ctrl-C
  monitor  tell what happens to connections, one JSON line an event, until Ctrl-C
  switch   move connections to another of their paths
  add      open one more path for a connection, and wait until it is established
  remove   close one path of a connection
  setup    set what makes MPTCP leave a dead path fast, or put it back (--undo)

`./bicast mptcp WORD --help` teaches one; `./bicast mptcp help` tells the exit codes.
"""


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "mptcp",
        help="see and steer the live MPTCP connections of this machine",
        description="See and steer the live MPTCP connections of this machine from outside the processes that own "
        "them: no controller is needed, nothing is patched.",
        epilog=WORDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="WORD ...", help="what to do, and its arguments")


def run(args: argparse.Namespace) -> int:
    ours = signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and what is ignored stays so over exec
    try:
        os.execv(AGENT, [AGENT.name, "mptcp", *args.words])
    except OSError as error:
        signal.signal(signal.SIGPIPE, ours)
        raise Failure(f"{AGENT} cannot be run ({error.strerror}); it is built by `make setup`") from error
