# SPDX-License-Identifier: Apache-2.0
"""`why`: a terminal's state and last decisions; or a destination's relay."""

from __future__ import annotations

import argparse
import json
from typing import Any

from cli import OK, USAGE, Failure
from cli.client import add_options, api_client
from cli.relayed import explained, resolved
from controller.model.text import CUT


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "why",
        help="explain why a terminal uses its uplink, or which relay serves a destination",
        description="Show the health of a terminal's uplinks, the agents that move its connections, and its "
        "last decisions, newest first, each with its measurements and its results at the gateway and the agents. Or "
        "show which relay the connections of relayed terminals use for a destination; missing figures are "
        "measured first.",
    )
    of = parser.add_mutually_exclusive_group(required=True)
    of.add_argument("terminal", metavar="TERMINAL", nargs="?", help="a terminal of gateway.yaml")
    of.add_argument("--relay", metavar="DEST", help="a destination: an address or a name of a server")
    parser.add_argument("--site", metavar="SITE", help="with --relay: from this site only (default: from every site)")
    parser.add_argument(
        "--json", action="store_true", help="print JSON as /api/v1/terminals/TERMINAL/decisions returns it"
    )
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    if args.relay is not None:
        return _relay(args)
    if args.site is not None:
        raise Failure("--site needs --relay: a terminal belongs to one site", USAGE)
    with api_client(args) as client:
        answer = client.get("terminals", args.terminal, "decisions" if args.json else "why")
    if args.json:
        print(json.dumps(answer, indent=2))
        return OK
    text = "\n\n".join(answer)
    print(text)
    if CUT in text:
        print(f"\ntexts that end in{CUT} are cut: `./bicast why {args.terminal} --json`")
    return OK


def _relay(args: argparse.Namespace) -> int:
    address = resolved(args.relay)
    with api_client(args) as client:
        destinations = client.destination(address, args.site)
    print(
        json.dumps(destinations, indent=2)
        if args.json
        else "\n\n".join("\n".join(explained(one)) for one in destinations)
    )
    return OK
