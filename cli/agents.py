# SPDX-License-Identifier: Apache-2.0
"""`enroll`, `revoke` and `agents`: agents' access to the controller."""

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
from cli.client import add_options, api_client
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
NOBODY = "no agent is enrolled; `./bicast enroll NAME` prints the command to run on the agent's host"


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    enroll = subparsers.add_parser(
        "enroll",
        help="print the token with which an agent joins",
        description="Print the command that makes a host an agent. Its token is single-use, valid for 15 "
        "minutes, and pins the controller's certificate. A new token replaces the previous one. An agent that is "
        "already connected keeps running until the new one connects.",
        epilog="A name of gateway.yaml sets the agent's role: a terminal's name makes an agent that speaks for "
        "that terminal, a site's name makes the gateway's agent, and a server's or relay's name makes an agent at "
        "the other end of connections. For any other name, use --role. If a terminal's name contains A-Z, '.' or "
        "'_', enrol its agent under another name, with --terminal.",
    )
    enroll.add_argument(
        "name",
        metavar="NAME",
        help=f"name of the agent: at most 63 of a-z, 0-9 and '-', not starting with '-', not '{EVERYBODY}'",
    )
    enroll.add_argument(
        "--role",
        choices=[role.value for role in Role],
        help="role of the agent (default: by its name in gateway.yaml)",
    )
    enroll.add_argument(
        "--terminal",
        metavar="TERMINAL",
        help="the terminal that the agent speaks for (default: the one with the agent's name)",
    )
    revoke = subparsers.add_parser(
        "revoke",
        help="disconnect an agent and revoke its certificate",
        description="End an agent's session at once, and refuse its certificate and its token from then on.",
    )
    revoke.add_argument("name", metavar="NAME", help="name of the agent")
    agents = subparsers.add_parser(
        "agents",
        help="list enrolled agents",
        description="List all enrolled agents, and hosts that still try to connect with "
        "a revoked or replaced certificate. `status` shows what connected agents report.",
    )
    agents.add_argument("--json", action="store_true", help="print JSON")
    for parser in (enroll, revoke, agents):
        add_options(parser)


def run(args: argparse.Namespace) -> int:
    with api_client(args) as client:
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
    name, (host, port) = invited["name"], _split(invited["join"])
    here = host.is_loopback
    program = _program(here)
    then = f" && {program} run --role {invited['role']}" if runs else ""
    addresses = _addresses(client, host.version) if host.is_unspecified else [str(host)]
    print(f"single-use, valid until {time.strftime('%H:%M:%S', time.localtime(invited['until']))}; run on {name}:")
    for address in addresses:
        join = str(Endpoint(address, port))
        print(f"  {program} join {join} --name {name} --token {invited['token']}{then}")
    if len(addresses) > 1:
        print(f"use the line with an address of this controller that {name} can reach")
    if here:
        print(
            f"! {invited['join']} can be reached only from the controller's own machine: for another host, set "
            "listen and join of controller.agents in gateway.yaml to an address that it can reach, and restart "
            "the controller"
        )
    print(
        "the identity is stored in /var/lib/bicast-agent; for another directory, add --directory DIRECTORY to "
        "this command and to `run`"
    )
    print(
        "other users of that host can read its command lines: to hide the token, write --token - and type it when asked"
    )


def _split(endpoint: str) -> tuple[IPv4Address | IPv6Address, int]:
    parts = urlsplit(f"//{endpoint}")
    return ip_address(parts.hostname or ""), parts.port or 0


def _addresses(client: Client, version: int) -> list[str]:
    if not is_loopback(client.host):
        return [client.host]
    found = [each.ip for link in links.read() if link.up for each in link.addresses]
    return [str(each) for each in found if each.version == version and not each.is_loopback]


def _program(here: bool) -> str:
    """Return the agent's program, from this tree if none is installed."""
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
