# SPDX-License-Identifier: Apache-2.0
"""`budget`: reset what a metered uplink has used."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from cli import OK, PARTLY, USAGE, Failure
from cli.client import add_options, api_client


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "budget",
        help="reset what a metered uplink has used of its budget",
        description="Reset what an uplink with `budget` or `max_share` has used. `./bicast status` shows it.",
    )
    verbs = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    reset = verbs.add_parser(
        "reset",
        help="set what the uplink has used to 0",
        description="Set what an uplink has used of its budget to 0. Use it when your provider's month begins, or when "
        "the controller counted while its clock was wrong: otherwise copies wait until that date has passed, unless "
        "NTP sets the clock. The controller writes each reset to its log.",
    )
    reset.add_argument("uplink", metavar="GATEWAY/UPLINK", help="a gateway of gateway.yaml, and one of its uplinks")
    reset.add_argument("--json", action="store_true", help="print the API's answer")
    add_options(reset)


def run(args: argparse.Namespace) -> int:
    gateway, slash, uplink = args.uplink.partition("/")
    if not (gateway and slash and uplink):
        raise Failure(f"{args.uplink!r} does not name an uplink; expected GATEWAY/UPLINK, such as home/lte", USAGE)
    with api_client(args) as client:
        answer = client.reset_budget(gateway, uplink)
    if args.json:
        print(json.dumps(answer, indent=2))
    else:
        print(*answer["done"], sep="\n", flush=True)
        for sentence in answer["failed"]:
            print(f"bicast: {sentence}", file=sys.stderr)
    return PARTLY if answer["failed"] else OK
