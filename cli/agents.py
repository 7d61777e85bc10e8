# SPDX-License-Identifier: Apache-2.0
"""`enroll`, `revoke` and `agents`: who may report to the controller and be ordered by it."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cli import OK, PARTLY
from cli.client import add_options, asked
from cli.tables import aligned
from controller.edges.http.client import Client
from controller.edges.http.token import is_loopback
from controller.model.config import EVERYBODY
from controller.model.settings import Endpoint
from controller.protocol.reports import Role
from gateway import links

HEADER = (
    *("AGENT", "ROLE", "STANDING", "CONNECTED FROM", "CERTIFICATE UNTIL", "TOKEN UNTIL"),
    *("REVOKED", "LAST TRIED", "FROM"),
)
TREE = Path(__file__).resolve().parents[1]
PROGRAM = "bicast-agent"
NOBODY = "no agent is enrolled; `./bicast enroll NAME` prints the line to type on the host that becomes one"


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    enroll = subparsers.add_parser(
        "enroll",
        help="print the token with which an agent joins",
        description="Print the line that makes an agent of a host. Its token is good once, for 15 minutes, and says "
        "whom the host may trust. A new one ends the one before; an agent that is already there goes on until the new "
        "one is served.",
        epilog="A name of gateway.yaml says what the agent is: a terminal's speaks for that terminal, a site's is its "
        "gateway's, a server's and a relay's is at the other end of connections. For any other name, use --role. "
        "Terminals' names may have more in them (A-Z, '.', '_'): enrol the agent under another name, with --terminal.",
    )
    enroll.add_argument(
        "name", metavar="NAME", help=f"of the agent: a-z, 0-9 and '-', 63 at most, no '-' first, not '{EVERYBODY}'"
    )
    enroll.add_argument(
        "--role",
        choices=[role.value for role in Role],
        help="what the agent is (default: as gateway.yaml has its name)",
    )
    enroll.add_argument(
        "--terminal", metavar="TERMINAL", help="whom a terminal's agent speaks for (default: the one of its own name)"
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
            show_token(client, client.invite(args.name, args.role, args.terminal))
        elif args.verb == "revoke":
            return _revoked(client.revoke(args.name))
        else:
            agents = client.get("agents")
            print(json.dumps(agents, indent=2) if args.json else aligned(_rows(agents)) if agents else NOBODY)
    return OK


def _revoked(answer: dict[str, Any]) -> int:
    print(*answer["done"], sep="\n", flush=True)
    for sentence in answer["failed"]:
        print(f"bicast: {sentence}", file=sys.stderr)
    return PARTLY if answer["failed"] else OK


def show_token(client: Client, invited: dict[str, Any], runs: bool = False) -> None:
    """Print the line that joins the agent, once for each address of the controller. With `runs` it runs the agent."""
    name, (host, port) = invited["name"], _split(invited["join"])
    here = host.is_loopback
    program = _program(here)
    then = f" && {program} run --role {invited['role']}" if runs else ""
    addresses = _addresses(client, host.version) if host.is_unspecified else [str(host)]
    print(f"valid once, until {time.strftime('%H:%M:%S', time.localtime(invited['until']))}; type on {name}:")
    for address in addresses:
        join = str(Endpoint(address, port))
        print(f"  {program} join {join} --name {name} --token {invited['token']}{then}")
    if len(addresses) > 1:
        print(f"one of these lines: the one with an address of this controller that {name} reaches")
    if here:
        print(
            f"! {invited['join']} is reached from the controller's own machine alone: for another, set listen and join "
            "of controller.agents in gateway.yaml to an address that it reaches, and start the controller again"
        )
    print("the identity is kept in /var/lib/bicast-agent; for another place add --directory DIRECTORY here and to run")
    print("users of that host can read its command lines: where that matters, write --token - and type the token then")


def _split(place: str) -> tuple[IPv4Address | IPv6Address, int]:
    parts = urlsplit(f"//{place}")
    return ip_address(parts.hostname or ""), parts.port or 0


def _addresses(client: Client, version: int) -> list[str]:
    """Return the addresses at which hosts reach a controller that listens at all addresses of one IP version."""
    if not is_loopback(client.host):
        return [client.host]
    found = [each.ip for link in links.read() if link.up for each in link.addresses]
    return [str(each) for each in found if each.version == version and not each.is_loopback]


def _program(here: bool) -> str:
    """The agent's program, as a shell finds it: on this machine the one of this tree, where none is installed."""
    built = TREE / "build" / PROGRAM
    return shlex.quote(str(built)) if here and shutil.which(PROGRAM) is None and built.exists() else PROGRAM


def _rows(agents: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    yield HEADER
    for one in agents:
        times = (_at(one[each]) for each in ("certificate_until", "token_until", "revoked_at", "tried_at"))
        yield (one["name"], _role(one), one["standing"], one["peer"] or "-", *times, one["tried_from"] or "-")


def _role(one: dict[str, Any]) -> str:
    if one["terminal"] in (None, one["name"]):
        return one["role"] or "-"
    return f"{one['role']} {one['terminal']}"


def _at(moment: float | None) -> str:
    return "-" if moment is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))
