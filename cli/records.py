# SPDX-License-Identifier: Apache-2.0
"""`events` and `audit`: what happened, and who changed what."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from cli import OK
from cli.client import add_options, api_client


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    events = subparsers.add_parser(
        "events",
        help="list what happened, newest first",
        description="List what happened to gateways, uplinks, terminals, agents and relays, newest first. The "
        "controller keeps the last 2000 events over a restart.",
    )
    events.add_argument("terminal", metavar="TERMINAL", nargs="?", help="only those about this terminal")
    events.add_argument("--uplink", metavar="UPLINK", help="only those about this uplink")
    audit = subparsers.add_parser(
        "audit",
        help="list who changed what, newest first",
        description="List the requests that may have changed something, newest first: when, who, and the result. "
        "The controller keeps the last 1000.",
    )
    for parser in (events, audit):
        parser.add_argument("--json", action="store_true", help="print JSON")
        add_options(parser)


def run(args: argparse.Namespace) -> int:
    with api_client(args) as client:
        found = client.get("audit") if args.verb == "audit" else client.events(args.terminal, args.uplink)
    if args.json:
        print(json.dumps(found, indent=2))
        return OK
    for each in found:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each["at"]))
        if args.verb == "events":
            print(f"{moment}  {each['sentence']}")
        else:
            said = "; ".join(each["said"]) or f"answered {each['status']}"
            print(f"{moment}  {each['who']}: {said}\n    {each['request']}")
    return OK
