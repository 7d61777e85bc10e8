# SPDX-License-Identifier: Apache-2.0
"""`status`: problems, then the current state as tables."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from cli import OK, measured, relay
from cli.client import add_options, api_client
from cli.tables import ago, aligned
from cli.troubles import carrier, link, revoked_tries, troubles
from controller.edges.http.client import Client, Denied
from controller.model.config import CapRule
from controller.model.relaying import RELAYING
from controller.protocol.enrolment import EnrolmentState

CHOSEN_BY = {"people": "*", "policies": "+", "default": ""}  # marks of active uplinks


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "status",
        help="show gateways, uplinks and terminals",
        description="Show the state of a running controller. Lines that begin with ! need attention: a "
        "refused configuration, a flow or group that a switch refused, a switch that is not connected, two switches "
        "with one dpid, an uplink that is down and its replacement, an agent that is silent, lacks a capability, or "
        "was revoked and still tries. Packets and bytes are from the last reading of the switch, which is read "
        "every 10 seconds, or each second if decisions on copies need it. SINCE counts from the last change sent to "
        "the switch.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON as /api/v1/status returns it")
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    with api_client(args) as client:
        status = client.get("status")
        enrolled = [] if args.json else _enrolled(client)
    if args.json:
        print(json.dumps(status, indent=2))
        return OK
    now = time.time()
    warnings = [f"! {warning}" for warning in (*troubles(status), *revoked_tries(enrolled, now))]
    parts = (
        _gateways(status, now),
        _uplinks(status),
        _tunnels(status),
        _copies(status),
        _budgets(status),
        _terminals(status),
    )
    tables = [table for table in map(aligned, parts) if table]
    if ruled := [one for one in status["access_points"] if one["rule"] != CapRule.OFF]:
        tables.append(aligned(measured.access_points(ruled)))
    if status["devices"]:
        tables.append(aligned(_devices(status)))
    if paths := [path for path in status["paths"] if not measured.is_of_a_phone(path)]:
        tables.append(aligned(measured.paths(paths)))
    if status["relays"]:
        tables.append(aligned(relay.table(status["relays"])))
    if status["interceptions"]:
        tables.append(aligned(_taking(status)))
    if status["agents"]:
        tables.append(aligned(_agents(status, now)))
    if enrolled:
        tables.append(_standings(enrolled))
    print("\n\n".join(["\n".join(warnings), *tables] if warnings else tables))
    if any(map(_is_wished, status["terminals"])):
        print("* set by a person with `bicast`; it overrides the file")
    for gateway in dict.fromkeys(one["gateway"] for one in status["terminals"] if _is_copied_alone(status, one)):
        print(
            f"no peer site mirrors {gateway}: copies from there reach servers twice, "
            "or from two addresses (docs/how-to/home.md)"
        )
    if any(one["active_by"] == "policies" for one in status["terminals"]):
        print("+ chosen by policies; `bicast why TERMINAL` shows the reason")
    print(f"controller {status['version']}, {status['config_path']}")
    return OK


def _is_copied_alone(status: dict[str, Any], terminal: dict[str, Any]) -> bool:
    gateway = next(each for each in status["gateways"] if each["name"] == terminal["gateway"])
    modes = (terminal, *terminal["classes"])
    return gateway["copies"] is None and len(gateway["uplinks"]) > 1 and any(one["acting"] == "bicast" for one in modes)


def _is_wished(terminal: dict[str, Any]) -> bool:
    modes = (terminal, *terminal["classes"])
    return terminal["active_by"] == "people" or any(each["mode_overridden"] for each in modes)


def _enrolled(client: Client) -> list[dict[str, Any]]:
    try:
        agents: list[dict[str, Any]] = client.get("agents")
    except Denied:  # agents are off in gateway.yaml
        return []
    return agents


def _standings(enrolled: list[dict[str, Any]]) -> str:
    counts = Counter(one["standing"] for one in enrolled)
    there = [
        EnrolmentState.CONNECTED,
        *(each for each in EnrolmentState if each is not EnrolmentState.CONNECTED and counts[each]),
    ]
    return f"agents: {', '.join(f'{counts[each]} {each}' for each in there)} (./bicast agents)"


def _gateways(status: dict[str, Any], now: float) -> Iterator[tuple[str, ...]]:
    yield ("GATEWAY", "DPID", "STATE", "SINCE", "PEER", "RECONCILES", "CHANGES", "REFUSED")
    for one in status["gateways"]:
        counts = (str(one[count]) for count in ("reconciles", "changes_sent", "refusals"))
        yield (one["name"], one["dpid"], one["state"], ago(now - one["since"]), one["peer"] or "-", *counts)


def _uplinks(status: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield ("UPLINK", "GATEWAY", "PORT", "LINK", "NEXT HOPS", "PACKETS UP", "DOWN", "BYTES UP", "DOWN")
    for gateway in status["gateways"]:
        for one in gateway["uplinks"]:
            hops = ", ".join(f"{hop['address']} {hop['mac'] or '(MAC not learned)'}" for hop in one["next_hops"])
            sent, received = (one["counters"] or {}).get("sent"), (one["counters"] or {}).get("received")
            yield (one["name"], gateway["name"], one["port"], link(gateway, one), hops, *_traffic(sent, received))


def _tunnels(status: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    tunnels = [
        (gateway["name"], uplink["name"], uplink["tunnel"]["up"], uplink["tunnel"]["end"])
        for gateway in status["gateways"]
        for uplink in gateway["uplinks"]
        if uplink["tunnel"] is not None and uplink["tunnel"]["end"] is not None
    ]
    if tunnels:
        yield ("TUNNEL", "GATEWAY", "STATE", "PEER ADDRESS", "HEARD", "RTT", "MTU", "MOVES")
    for gateway, uplink, up, end in tunnels:
        last_packet = "never" if end["since_packet_ms"] is None else f"{end['since_packet_ms'] / 1000:.1f} s ago"
        rtt = f"{end['rtt_us'] / 1000:.1f} ms" if end["rtt_us"] else "-"
        counts = (str(end["mtu_bytes"] or "-"), str(end["moves"]))
        yield (uplink, gateway, "up" if up else "down", end["peer"] or "-", last_packet, rtt, *counts)


def _copies(status: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    ends = [one for one in status["gateways"] if one["copies"] is not None]
    if ends:
        yield ("COPIES AT", "BY", "FIRST", "ELIMINATED", "LATE", "ROGUE", "EVICTED", "WINDOW", "COPIED FROM HERE")
    for gateway in ends:
        copies = gateway["copies"]
        window = "-" if copies["window_us"] is None else f"{copies['window_us'] / 1000:.0f} ms"
        for path in copies["paths"] or [None]:
            counts = ("first", "eliminated", "late", "rogue", "evicted")
            by = (path["name"], *(str(path[count]) for count in counts)) if path else ("-",) * (1 + len(counts))
            yield (gateway["name"], *by, window, ", ".join(copies["copied"]))


def _budgets(status: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    paid = [(gateway["name"], one) for gateway in status["gateways"] for one in gateway["uplinks"] if one["budget"]]
    if paid:
        yield ("BUDGET OF", "GATEWAY", "MB USED", "OF", "PER", "COPIES", "OF")
    for gateway, uplink in paid:
        one = uplink["budget"]
        most = one["budget_bytes"]
        used = (f"{one['used_bytes'] / 1e6:.1f}", "-" if most is None else f"{most / 1e6:.1f}", one["period"])
        share = (f"{one['share']:.0%}", "-" if one["max_share"] is None else f"{one['max_share']:.0%}")
        yield (uplink["name"], gateway, *used, *share)


def _taking(status: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield ("RELAYED", "GATEWAY", "CONNECTIONS", "VIA RELAY", "DIRECTLY", "RESET", "BYTES UP", "DOWN")
    for site in status["interceptions"]:
        for one in site["terminals"]:
            counts = (
                str(one[each]) for each in ("connections", "relayed", "direct", "reset", "bytes_up", "bytes_down")
            )
            yield (one["name"], site["gateway"], *counts)


def _terminals(status: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield (
        "TERMINAL",
        "GATEWAY",
        "MODE",
        "ACTIVE",
        "ADDRESSES",
        "PACKETS UP",
        "DOWN",
        "BYTES UP",
        "DOWN",
        "COPIED LAST MINUTE",
    )
    gateways = {one["name"]: one for one in status["gateways"]}
    for one in status["terminals"]:
        gateway = gateways[one["gateway"]]
        own = (place for place in one["addresses"] if not place["subnet"].startswith(RELAYING))
        addresses = ", ".join(f"{place['address']}@{place['port']}" for place in own)
        mode = _mode(one) + "".join(f", {each['name']}: {_mode(each)}" for each in one["classes"])
        active = one["active_uplink"] + CHOSEN_BY[one["active_by"]]
        uplink = next((each for each in gateway["uplinks"] if each["name"] == one["active_uplink"]), None)
        if uplink is not None and link(gateway, uplink) in ("down", "missing"):
            active += f" ({link(gateway, uplink)}; on {carrier(gateway, one) or 'nothing'})"
        traffic = _traffic(one["sent"], one["received"])
        yield (one["name"], one["gateway"], mode, active, addresses, *traffic, _copied(one["traffic"]))


def _devices(status: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    modes = {one["name"]: _mode(one) for one in status["terminals"]}
    yield ("DEVICE", "GATEWAY", "ADDRESS", "MAC", "AS TERMINAL", "MODE")
    for one in sorted(status["devices"], key=lambda one: (one["gateway"], one["name"] or "~", one["address"])):
        name, terminal = one["name"] or "-", one["terminal"]
        yield (name, one["gateway"], one["address"], one["mac"], terminal, modes[terminal])


def _copied(traffic: dict[str, Any]) -> str:
    """Return the last minute's packets."""
    copied, alone = (sum(each[kind] for each in traffic["passed"]) for kind in ("copied", "alone"))
    return f"{copied} of {copied + alone}" if traffic["passed"] else "-"


def _mode(one: dict[str, Any]) -> str:
    mode = str(one["mode"]) + ("*" if one["mode_overridden"] else "")
    return mode if one["acting"] == one["mode"] else f"{mode} ({one['acting']})"


def _agents(status: dict[str, Any], now: float) -> Iterator[tuple[str, ...]]:
    yield ("AGENT", "ROLE", "STATE", "REPORT", "TERMINALS", "PATH MANAGER", "VERSION", "CANNOT")
    for one in status["agents"]:
        report = "-" if one["reported_at"] is None else f"{ago(now - one['reported_at'])} ago"
        lacks = one["missing"] if one["state"] != "gone" else ()
        missing = ", ".join(each["capability"] for each in lacks) or "-"
        terminals = ", ".join(one["terminals"]) or "-"
        manager = f"{one['path_manager']} PM"
        yield (one["name"], one["role"], one["state"], report, terminals, manager, one["version"], missing)


def _traffic(sent: dict[str, int] | None, received: dict[str, int] | None) -> tuple[str, ...]:
    return tuple(
        "-" if counters is None else str(counters[unit])
        for unit in ("packets", "bytes")
        for counters in (sent, received)
    )
