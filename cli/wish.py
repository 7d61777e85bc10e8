# SPDX-License-Identifier: Apache-2.0
"""`mode` and `switch`: what people ask of a running controller, and what it says it did."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from cli import LONGEST, OK, PARTLY
from cli.client import add_options, asked
from controller.model.config import AUTO, EVERYBODY, WRITTEN, Mode
from controller.model.text import CUT, shortened

MODES = """\
modes:
  bicast  what is bicast (TCP, unless configured otherwise) leaves by every usable uplink, the rest by the active one;
          all of a class that has a name leaves by every usable uplink
  single  everything leaves by the active uplink; the others take over when its port goes down
  off     every subflow subnet leaves by its own uplink, as if there were no controller
  auto    as bicast while the active uplink loses packets or holds them up, as single while it is clean; `./bicast why`
          tells which, and why. In a class: as it is decided for the terminal
  file    takes back what was set here: as gateway.yaml says, and where it says nothing of a class, as its terminal;
          what was set for a terminal's classes stays when that of the terminal is taken back
No mode copies more than the file's `budget_bytes_per_day` and `max_share` of an uplink leave.
"""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    mode = subparsers.add_parser(
        "mode",
        help="set how a terminal's packets leave",
        description="Set how a terminal's packets leave. It holds, over restarts and whatever gateway.yaml says, until "
        f"somebody sets another, or {WRITTEN}.",
        epilog=MODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    mode.add_argument(
        "terminal",
        metavar="TERMINAL[/CLASS]",
        help=f"a terminal of gateway.yaml, or {EVERYBODY}; behind it one of its site's classes, which "
        "then has a mode of its own",
    )
    mode.add_argument("mode", choices=[*map(str, Mode), WRITTEN])
    _add_options(mode)
    switch = subparsers.add_parser(
        "switch",
        help="set the active uplink of a terminal, or leave it to policies",
        description="Set the uplink that carries what is not bicast, and move the terminal's MPTCP connections there "
        f"where an agent can. It holds, over restarts too, until somebody sets another, or {AUTO}: then policies "
        "choose.",
    )
    switch.add_argument("terminal", metavar="TERMINAL", help="a terminal of gateway.yaml")
    switch.add_argument("uplink", metavar="UPLINK", help=f"an uplink of the terminal's gateway, or {AUTO}")
    _add_options(switch)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="what was done, whole, as the API answers")
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    with asked(args) as client:
        if args.verb == "switch":
            answer = client.set_active(args.terminal, args.uplink)
        else:
            terminal, slash, traffic = args.terminal.partition("/")
            answer = client.set_mode(terminal, args.mode, traffic if slash else None)
    code = PARTLY if answer["failed"] else OK
    if args.json:
        print(json.dumps(answer, indent=2))
        return code
    for sentence in answer["done"]:
        print(shortened(sentence, LONGEST))
    if any(len(sentence) > LONGEST for sentence in (*answer["done"], *answer["failed"])):  # an agent's, of one terminal
        print(f"where it ends in{CUT} there is more: `./bicast why {args.terminal} --json`")
    sys.stdout.flush()  # what was done is read before what was not
    for sentence in answer["failed"]:
        print(f"bicast: {shortened(sentence, LONGEST)}", file=sys.stderr)
    return code
