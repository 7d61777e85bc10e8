# SPDX-License-Identifier: Apache-2.0
"""`relay`: hosts on the Internet that carry terminals' connections."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

from cli import OK, PARTLY, REFUSED, USAGE, Failure
from cli.agents import show_token
from cli.client import add_options, api_client
from cli.relayed import explained, resolved
from cli.tables import ago, aligned
from controller.edges.http.client import Client
from controller.protocol.enrolment import EnrolmentState
from controller.protocol.reports import Role

NONE = "no relay exists; `./bicast relay add NAME ADDRESS` prints the command to run on the relay's host"
DEFAULT_PORT = 443
MOST_PORT = 65535


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "relay",
        help="manage the relays that carry terminals' connections",
        description="Use hosts on the Internet as relays: gateways send the TCP of their relayed terminals "
        "to them over MPTCP (docs/how-to/relay.md). A relay stays until it is removed, also across restarts.",
    )
    verbs = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    wish = verbs.add_parser(
        "add",
        help="add a relay, and print the command to run on its host",
        description="Add a relay, or change an existing one, and print the command to run on its host. Its "
        "token is single-use and valid for 15 minutes.",
    )
    wish.add_argument("name", metavar="NAME", help="name of the relay and of its agent: a-z, 0-9 and '-'")
    wish.add_argument(
        "address",
        metavar="ADDRESS[:PORT]",
        help=f"address at which gateways reach it, such as 203.0.113.9 or [2001:db8::9]:8443; not a name, because "
        f"names can change their address (port: {DEFAULT_PORT})",
    )
    wish.add_argument(
        "--ports", metavar="LIST", default="80,443", help="ports of servers that it may connect to (default: 80,443)"
    )
    wish.add_argument("--congestion", metavar="NAME", help="congestion control, such as bbr (default: its kernel's)")
    for what, does, meaning in (
        (
            "remove",
            "remove a relay",
            "End its connections, and revoke its agent. Run `drain` first to lose no connection.",
        ),
        ("drain", "stop new connections through a relay", "Open connections continue."),
        ("resume", "allow new connections through a relay", "Undo `drain`."),
    ):
        verbs.add_parser(what, help=does, description=meaning).add_argument(
            "name", metavar="NAME", help="name of the relay"
        )
    listed = verbs.add_parser("list", help="list relays", description="List relays, and how gateways reach them.")
    listed.add_argument("--json", action="store_true", help="print JSON")
    trial = verbs.add_parser(
        "test",
        help="measure a relay's round trips and its gain for a destination",
        description="Let each gateway measure its round trip to the relay, and gateways and relays theirs to a "
        "destination. Prints the predicted throughput. The exit code is 1 if a gateway does not reach the relay.",
    )
    trial.add_argument("name", metavar="NAME", help="name of the relay")
    trial.add_argument("destination", metavar="DEST", nargs="?", help="address or name of a server")
    trial.add_argument("--json", action="store_true", help="print JSON")
    for each in verbs.choices.values():
        add_options(each)


def run(args: argparse.Namespace) -> int:
    with api_client(args) as client:
        match args.what:
            case "add":
                return _add(client, args)
            case "remove":
                return _print_answer(client.remove_relay(args.name))
            case "drain" | "resume":
                return _print_answer(client.drain_relay(args.name, args.what == "drain"))
            case "list":
                return _list(client.get("relays"), args.json)
        address = None if args.destination is None else resolved(args.destination)
        return _tell(client.try_relay(args.name, address), args.json)


def _add(client: Client, args: argparse.Namespace) -> int:
    address, port = _endpoint(args.address)
    relays = (one for one in client.get("agents") if one["role"] == Role.RELAY)
    here = {one["name"] for one in relays if one["standing"] == EnrolmentState.CONNECTED}
    code = _print_answer(client.add_relay(args.name, address, port, _ports(args.ports), args.congestion))
    if args.name in here:
        print(f"the agent {args.name} is already connected as a relay: it is in use from now on")
    else:
        show_token(client, client.invite(args.name, Role.RELAY), runs=True)
    return code


def _print_answer(answer: dict[str, Any]) -> int:
    for sentence in answer["done"]:
        print(sentence)
    sys.stdout.flush()
    for sentence in answer["failed"]:
        print(f"bicast: {sentence}", file=sys.stderr)
    return PARTLY if answer["failed"] else OK


def _list(relays: list[dict[str, Any]], as_json: bool) -> int:
    if as_json:
        print(json.dumps(relays, indent=2))
    elif not relays:
        print(NONE)
    else:
        _print_parts(_warnings(relays), aligned(table(relays)), aligned(_reached(relays)))
    return OK


def _print_parts(*parts: str) -> None:
    print("\n\n".join(filter(None, parts)))


def _warnings(relays: list[dict[str, Any]]) -> str:
    return "\n".join(f"! {each}" for each in troubles(relays))


def table(relays: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    yield (
        "RELAY",
        "AT",
        "STATE",
        "CARRIES",
        "CARRIED",
        "BYTES UP",
        "DOWN",
        "OVERHEAD",
        "BUSY",
        "CONGESTION CONTROL",
        "TOLD",
    )
    for one in relays:
        report = one["report"]
        state = "drains" if one["draining"] else "stands"
        if one["why_not"] is not None:
            state = "down" if one["reporting"] else "no report"
        at = f"[{one['address']}]:{one['port']}" if ":" in one["address"] else f"{one['address']}:{one['port']}"
        if report is None:
            yield (one["name"], at, state, *["-"] * 8)
            continue
        counts = (str(report[each]) for each in ("connections", "carried", "bytes_up", "bytes_down"))
        overhead = f"{report['overhead_us'] / 1000:.2f} ms" if report["overhead_us"] else "-"
        busy = f"{report['busy_percent']} %"
        yield (one["name"], at, state, *counts, overhead, busy, report["congestion"] or "-", f"{ago(one['age_s'])} ago")


def troubles(relays: list[dict[str, Any]]) -> Iterator[str]:
    for one in relays:
        if one["why_not"] is not None:
            yield f"relay {one['name']}: {one['why_not']}"
        for each in one["reached"]:
            if each["reason"] is not None:
                yield f"relay {one['name']}: {each['gateway']} does not reach it: {each['reason']}"


def _reached(relays: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    rows = [(one["name"], each) for one in relays for each in one["reached"]]
    if rows:
        yield ("RELAY", "GATEWAY", "REACHED", "CONNECTIONS", "IN RESERVE", "SET-UP", "RTT")
    for name, one in rows:
        reached = "yes" if one["reason"] is None else "no"
        times = (_ms(one["setup_ms"]), _ms(one["rtt_ms"]))
        yield (name, one["gateway"], reached, str(one["connections"]), str(one["opened"]), *times)


def _tell(tried: dict[str, Any], as_json: bool) -> int:
    relay = tried["relay"]
    if as_json:
        print(json.dumps(tried, indent=2))
    else:
        report = ("\n".join(explained(one)) for one in tried["destinations"])
        _print_parts(_warnings([relay]), aligned(_reached([relay])), *report)
    reached = relay["reached"] and all(one["reason"] is None for one in relay["reached"])
    return OK if reached and relay["why_not"] is None else REFUSED


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} ms"


def _endpoint(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or (text.count(":") > 1 and not host.endswith("]")):
        host, port = text, str(DEFAULT_PORT)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    try:
        address = ip_address(host)
        number = int(port) if port.isascii() and port.isdigit() else 0
    except ValueError:
        raise Failure(
            f"{text!r} is not an address with a port: expected one such as 203.0.113.9:443 or [2001:db8::9]:443; for "
            "a name, give one of its addresses, because gateways do not notice when they change",
            USAGE,
        ) from None
    if not 1 <= number <= MOST_PORT:
        raise Failure(f"{text!r} has no port: expected one from 1 to {MOST_PORT} after the colon", USAGE)
    return str(address), number


def _ports(text: str) -> list[tuple[int, int]]:
    found = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        bounds = (first, last if dash else first)
        if not all(each.isascii() and each.isdigit() and 1 <= int(each) <= MOST_PORT for each in bounds):
            expected = f"ports from 1 to {MOST_PORT}, such as 80,443,8000-8099"
            raise Failure(f"--ports {text!r} is not a list of ports: expected {expected}", USAGE)
        found.append((int(bounds[0]), int(bounds[1])))
    return found
