# SPDX-License-Identifier: Apache-2.0
"""`mode` and `switch`: set overrides and print the result."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from cli import OK, PARTLY
from cli.client import add_options, api_client
from controller.model.config import AUTO, EVERYBODY, WRITTEN, Mode
from controller.model.text import CUT, LONGEST, shortened

MODES = """\
modes:
  bicast  packets of the bicast class (TCP, unless configured otherwise) leave over every usable uplink, the rest over
          the active one; a named class in this mode leaves completely over every usable uplink
  single  everything leaves over the active uplink; another one takes over when its port goes down
  off     each subflow subnet leaves over its own uplink, as without a controller
  auto    like bicast while the active uplink is lossy or slow, like single while it is clean; `./bicast why` shows
          which and why. A class follows the decision for its terminal
  file    removes the override: gateway.yaml applies, and a class without a mode there follows its terminal;
          overrides of a terminal's classes stay when the terminal's own override is removed
No mode copies more than `budget` and `max_share` of an uplink in the file allow.
"""


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    mode = subparsers.add_parser(
        "mode",
        help="set a terminal's mode",
        description="Set a terminal's mode: how its packets leave. The override survives restarts and changes of "
        f"gateway.yaml, until another mode or {WRITTEN} is set.",
        epilog=MODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    mode.add_argument(
        "terminal",
        metavar="TERMINAL[/CLASS]",
        help=f"a terminal of gateway.yaml, or {EVERYBODY}; append a class of its site to give that class its own mode",
    )
    mode.add_argument("mode", choices=[*map(str, Mode), WRITTEN])
    _add_options(mode)
    switch = subparsers.add_parser(
        "switch",
        help="set the active uplink of a terminal, or leave it to policies",
        description="Set the uplink that carries packets without copies, and move the terminal's MPTCP connections "
        f"there if an agent can. The override survives restarts, until another uplink is set, or {AUTO}: "
        "then policies choose.",
    )
    switch.add_argument("terminal", metavar="TERMINAL", help="a terminal of gateway.yaml")
    switch.add_argument("uplink", metavar="UPLINK", help=f"an uplink of the terminal's gateway, or {AUTO}")
    _add_options(switch)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the API's complete answer")
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    with api_client(args) as client:
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
    # Only an agent's answer about one terminal is this long. `why` prints it in full.
    if any(len(sentence) > LONGEST for sentence in (*answer["done"], *answer["failed"])):
        print(f"texts that end in{CUT} are cut: `./bicast why {args.terminal} --json`")
    sys.stdout.flush()  # results appear before errors
    for sentence in answer["failed"]:
        print(f"bicast: {shortened(sentence, LONGEST)}", file=sys.stderr)
    return code
