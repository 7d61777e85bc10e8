"""`enroll`, `revoke` and `agents`: who may report to the controller and be ordered by it."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from cli import OK
from cli.client import add_options, asked
from cli.tables import aligned
from controller.model import EVERYBODY

ANYWHERE = "CONTROLLER"  # in the place of a host: the controller listens at all of its addresses
NOBODY = "no agent is enrolled; `./bicast enroll NAME` prints the line to type on the host that becomes one"


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    enroll = subparsers.add_parser(
        "enroll",
        help="print the token with which an agent joins",
        description="Print the line that makes an agent of a host. Its token is good once, for 15 minutes, and says "
        "whom the host may trust. A new one ends the one before; an agent that is already there goes on until the new "
        "one is served.",
        epilog="A terminal's own agent is found by its name: give it the terminal's. Terminals' names may have more in "
        "them (A-Z, '.', '_'); an agent under another name than its terminal's is found by its addresses.",
    )
    enroll.add_argument(
        "name", metavar="NAME", help=f"of the agent: a-z, 0-9 and '-', 63 at most, no '-' first, not '{EVERYBODY}'"
    )
    revoke = subparsers.add_parser(
        "revoke",
        help="send an agent away, and its certificate with it",
        description="End an agent's stream at once, and refuse its certificate and its token from then on.",
    )
    revoke.add_argument("name", metavar="NAME", help="of the agent")
    agents = subparsers.add_parser(
        "agents",
        help="list who was enrolled",
        description="List every agent that was enrolled, and who still tries to come in with a certificate that was "
        "revoked or replaced. What those that are connected report is told by `status`.",
    )
    agents.add_argument("--json", action="store_true", help="for scripts")
    for parser in (enroll, revoke, agents):
        add_options(parser)


def run(args: argparse.Namespace) -> int:
    with asked(args) as client:
        if args.verb == "enroll":
            show_token(client.invite(args.name))
        elif args.verb == "revoke":
            for sentence in client.revoke(args.name)["done"]:
                print(sentence)
        else:
            agents = client.get("agents")
            print(json.dumps(agents, indent=2) if args.json else aligned(_rows(agents)) if agents else NOBODY)
    return OK


def show_token(invited: dict[str, Any], then: str = "") -> None:
    """`then` stands behind the line that is typed there."""
    name, join = invited["name"], invited["join"]
    nowhere = join.startswith(":")
    print(f"good once, until {time.strftime('%H:%M:%S', time.localtime(invited['until']))}; on {name}:")
    print(f"  bicast-agent join {ANYWHERE if nowhere else ''}{join} --name {name} --token {invited['token']}{then}")
    if nowhere:
        print(f"where {ANYWHERE} is an address of this controller that {name} reaches")
    elif ip_address(urlsplit(f"//{join}").hostname or "").is_loopback:
        print(
            f"! {join} is reached from the controller's own machine alone: for another, set listen and join of "
            "controller.agents in gateway.yaml to an address that it reaches, and start the controller again"
        )
    print(
        "its identity is kept in /var/lib/bicast-agent; to have it elsewhere, add --directory DIRECTORY here and to run"
    )


def _rows(agents: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    yield ("AGENT", "STANDING", "CONNECTED FROM", "CERTIFICATE UNTIL", "TOKEN UNTIL", "REVOKED", "LAST TRIED", "FROM")
    for one in agents:
        times = (_at(one[each]) for each in ("certificate_until", "token_until", "revoked_at", "tried_at"))
        yield (one["name"], one["standing"], one["peer"] or "-", *times, one["tried_from"] or "-")


def _at(moment: float | None) -> str:
    return "-" if moment is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))
