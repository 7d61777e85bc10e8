"""`enroll`, `revoke` and `agents`: who may report to the controller and be ordered by it."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

from cli import OK
from cli.client import add_options, asked
from cli.status import aligned

ANYWHERE = "CONTROLLER"  # in the place of a host: the controller listens at all of its addresses


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    enroll = subparsers.add_parser(
        "enroll",
        help="print the token with which an agent joins",
        description="Print the line that makes an agent of a host. Its token is good once, for 15 minutes, and says "
        "whom the host may trust. A new one ends the one before; an agent that is already there goes on until the new "
        "one is served.",
    )
    enroll.add_argument("name", metavar="NAME", help="of the agent: a-z, 0-9 and '-'")
    revoke = subparsers.add_parser(
        "revoke",
        help="send an agent away, and its certificate with it",
        description="End an agent's stream at once, and refuse its certificate and its token from then on.",
    )
    revoke.add_argument("name", metavar="NAME", help="of the agent")
    agents = subparsers.add_parser(
        "agents",
        help="list who was enrolled",
        description="List every agent that was enrolled. What those that are connected report is told by `status`.",
    )
    agents.add_argument("--json", action="store_true", help="for scripts")
    for parser in (enroll, revoke, agents):
        add_options(parser)


def run(args: argparse.Namespace) -> int:
    with asked(args) as client:
        if args.verb == "enroll":
            _show(client.invite(args.name))
        elif args.verb == "revoke":
            for sentence in client.revoke(args.name)["done"]:
                print(sentence)
        else:
            agents = client.get("agents")
            print(json.dumps(agents, indent=2) if args.json else aligned(_rows(agents)))
    return OK


def _show(invited: dict[str, Any]) -> None:
    nowhere = invited["join"].startswith(":")
    place = (ANYWHERE if nowhere else "") + invited["join"]
    print(f"good once, until {time.strftime('%H:%M:%S', time.localtime(invited['until']))}; on {invited['name']}:")
    print(f"  bicast-agent join {place} --name {invited['name']} --token {invited['token']}")
    if nowhere:
        print(f"where {ANYWHERE} is an address of this controller that {invited['name']} reaches")


def _rows(agents: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    yield ("AGENT", "CONNECTED FROM", "CERTIFICATE UNTIL", "TOKEN UNTIL", "REVOKED")
    for one in agents:
        times = (_at(one[each]) for each in ("certificate_until", "token_until", "revoked_at"))
        yield (one["name"], one["peer"] or "-", *times)


def _at(moment: float | None) -> str:
    return "-" if moment is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))
