# SPDX-License-Identifier: Apache-2.0
"""`budget`: reset today's bytes of copies on a metered uplink."""

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
        help="reset the bytes that copies have used on a metered uplink today",
        description="Reset the bytes that copies have used on an uplink with budget_bytes_per_day "
        "or max_share. `./bicast status` shows them.",
    )
    verbs = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    reset = verbs.add_parser(
        "reset",
        help="set the bytes that copies have used today to 0",
        description="Set the bytes that copies have used on an uplink today to 0. Use it when the controller "
        "counted a day while its clock was wrong: otherwise copies wait until that date has passed, unless NTP sets "
        "the clock. The controller writes each reset to its log.",
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
