"""`status`: the whole of one moment as a table, with what needs somebody's attention before it."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from cli import OK, measured, relay
from cli.client import add_options, asked
from cli.tables import ago, aligned
from controller.counting import counted
from controller.enrolling import Standing
from controller.model import CapRule
from controller.relayed import RELAYING
from controller.web.client import Client, Denied

CHOSEN_BY = {"people": "*", "policies": "+", "default": ""}  # marks behind an active uplink
STILL_TRIES_S = 1200.0  # twice the longest that an agent waits whose certificate does not count


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "status",
        help="show gateways, uplinks and terminals",
        description="Show what a running controller knows. Lines that begin with ! need attention: a configuration "
        "that was refused, a flow or group that a switch refused, a switch that is not connected, two of one dpid, an "
        "uplink that is down and what carries its terminals meanwhile, an agent that is silent, lacks something, "
        "or was revoked and still tries. Packets and bytes are those of the last reading of the switch, which is read "
        "every 10 seconds; SINCE counts from the last change that it was sent.",
    )
    parser.add_argument("--json", action="store_true", help="everything, as /api/v1/status gives it")
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    with asked(args) as client:
        status = client.get("status")
        enrolled = [] if args.json else _enrolled(client)
    if args.json:
        print(json.dumps(status, indent=2))
        return OK
    now = time.time()
    warnings = [f"! {warning}" for warning in (*_warnings(status), *_outcasts(enrolled, now))]
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
    if roads := [road for road in status["roads"] if not measured.is_of_a_phone(road)]:
        tables.append(aligned(measured.roads(roads)))
    if status["relays"]:
        tables.append(aligned(relay.table(status["relays"])))
    if status["taking"]:
        tables.append(aligned(_taking(status)))
    if status["agents"]:
        tables.append(aligned(_agents(status, now)))
    if enrolled:
        tables.append(_standings(enrolled))
    print("\n\n".join(["\n".join(warnings), *tables] if warnings else tables))
    if any(map(_is_wished, status["terminals"])):
        print("* somebody set it with `bicast`; that holds, whatever the file says")
    if any(one["active_by"] == "policies" for one in status["terminals"]):
        print("+ policies chose it; `bicast why TERMINAL` tells why")
    return OK


def _is_wished(terminal: dict[str, Any]) -> bool:
    modes = (terminal, *terminal["classes"])
    return terminal["active_by"] == "people" or any(each["mode_wished"] for each in modes)


def _enrolled(client: Client) -> list[dict[str, Any]]:
    try:
        agents: list[dict[str, Any]] = client.get("agents")
    except Denied:  # it serves none, which is no news to whoever wrote so
        return []
    return agents


def _warnings(status: dict[str, Any]) -> Iterator[str]:
    if status["config_error"] is not None:
        loaded = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status["config_loaded_at"]))
        yield f"configuration: the one of {loaded} is in force, the file was refused since: {status['config_error']}"
    agents = {one["name"] for one in status["agents"] if one["state"] != "gone" and one["role"] == "gateway"}
    for gateway in status["gateways"]:
        if gateway["state"] == "absent":
            yield (
                f"{gateway['name']}: no switch of dpid {gateway['dpid']} is connected; on its machine, "
                f"`./bicast doctor {status['config_path']}` tells why"
            )
        if gateway["rival"] is not None:
            yield (
                f"{gateway['name']}: two switches have dpid {gateway['dpid']}: {gateway['peer']}, which is served, and "
                f"{gateway['rival']}, which is not; give each bridge a dpid of its own (ovs-vsctl set bridge NAME "
                "other-config:datapath-id=16 HEX DIGITS), and one target (ovs-vsctl get-controller NAME)"
            )
        if gateway["last_error"] is not None:
            yield f"{gateway['name']}: {gateway['last_error']}"
        copies = gateway["copies"]
        if copies is not None and not copies["eliminated"] and gateway["name"] in agents:
            yield f"{gateway['name']}: every copy of a packet passes: {copies['because']}"
        for silent in copies["silent"] if copies is not None else ():
            yield f"{gateway['name']}: {silent['uplink']}: {silent['because']}; it protects nobody now"
        for uplink in gateway["uplinks"]:
            if uplink["tunnel"] is not None and not uplink["tunnel"]["up"]:
                yield f"{gateway['name']}: {uplink['name']}: its tunnel is down: {uplink['tunnel']['because']}"
            if uplink["budget"] is not None and uplink["budget"]["barred"] is not None:
                yield f"{gateway['name']}: {uplink['name']}: no copies leave by it: {uplink['budget']['barred']}"
        for port, because in gateway["fitting"]["missing"] if gateway["fitting"] is not None else ():
            yield f"{gateway['name']}: {port}: senders are not told how long packets may be: {because}"
        for conflict in gateway["conflicts"]:
            yield f"{gateway['name']}: a foreign flow stands where ours would: {conflict}"
        for uplink in gateway["uplinks"]:
            if uplink["number"] is None and gateway["state"] != "absent":
                missing = f"{gateway['bridge']} has no port {uplink['port']}"
                yield f"{gateway['name']}: {uplink['name']}: {missing}{_instead(status, gateway, uplink)}"
            elif _link(gateway, uplink) == "down":
                down = f"its port {uplink['port']} is down"
                yield f"{gateway['name']}: {uplink['name']}: {down}{_instead(status, gateway, uplink)}"
    yield from _unshared(status["access_points"])
    yield from relay.troubles(status["relays"])
    for taking in status["taking"]:
        if taking["why_not"] is not None:
            yield f"{taking['gateway']}: terminals' TCP is not taken as it is to be: {taking['why_not']}"
    for agent in status["agents"]:
        if agent["state"] == "silent":
            yield f"agent {agent['name']}: it is connected and has not reported for three periods"
        for missing in agent["missing"] if agent["state"] != "gone" else ():
            yield f"agent {agent['name']} cannot {missing['capability']}: {missing['reason']}"


def _unshared(access_points: list[dict[str, Any]]) -> Iterator[str]:
    """Where a rule is not followed, or what was said of a terminal is not believed."""
    for place in access_points:
        name = f"{place['gateway']}: access point {place['name']}"
        for port, because in place["missing"]:
            yield f"{name}: nothing is held at the port {port}: {because}"
        for one in place["terminals"]:
            if one["most_segments"] is not None and one["agent"] is None:
                yield f"{name}: nobody holds {one['terminal']} to its part: {one['because']}"
            if one["instead"] is not None:
                yield f"{name}: {one['agent']} holds {one['terminal']} to its part, for {one['instead']}"
            if one["doubts"]:
                times = counted(one["doubted"], "times")
                told = f"what is told of {one['terminal']} is not believed, {times} until now"
                yield f"{name}: {told}: {'; '.join(one['doubts'])}"


def _outcasts(enrolled: list[dict[str, Any]], now: float) -> Iterator[str]:
    for one in enrolled:
        name, tried_at = one["name"], one["tried_at"]
        if one["standing"] == Standing.REVOKED and tried_at is not None and now - tried_at < STILL_TRIES_S:
            yield (
                f"agent {name}: it was revoked and still tries, {ago(now - tried_at)} ago from {one['tried_from']}; "
                f"stop it there, or let it back with `./bicast enroll {name}` and `bicast-agent join`"
            )


def _standings(enrolled: list[dict[str, Any]]) -> str:
    """How many agents are connected, and what is with the others."""
    counts = Counter(one["standing"] for one in enrolled)
    there = [Standing.CONNECTED, *(each for each in Standing if each is not Standing.CONNECTED and counts[each])]
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
            yield (one["name"], gateway["name"], one["port"], _link(gateway, one), hops, *_traffic(sent, received))


def _tunnels(status: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    tunnels = [
        (gateway["name"], uplink["name"], uplink["tunnel"]["up"], uplink["tunnel"]["end"])
        for gateway in status["gateways"]
        for uplink in gateway["uplinks"]
        if uplink["tunnel"] is not None and uplink["tunnel"]["end"] is not None
    ]
    if tunnels:
        yield ("TUNNEL", "GATEWAY", "STATE", "OTHER END AT", "HEARD", "RTT", "MTU", "MOVES", "STRANGERS' PACKETS")
    for gateway, uplink, up, end in tunnels:
        heard = "never" if end["heard_ms"] is None else f"{end['heard_ms'] / 1000:.1f} s ago"
        rtt = f"{end['rtt_us'] / 1000:.1f} ms" if end["rtt_us"] else "-"
        counts = (str(end["mtu_bytes"] or "-"), str(end["moves"]), str(end["strangers"]))
        yield (uplink, gateway, "up" if up else "down", end["peer"] or "-", heard, rtt, *counts)


def _copies(status: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """What came in more than once, where two of our sites are each other's ends."""
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
    """Of uplinks that are paid for by the byte."""
    paid = [(gateway["name"], one) for gateway in status["gateways"] for one in gateway["uplinks"] if one["budget"]]
    if paid:
        yield ("COPIES BY", "GATEWAY", "MB TODAY", "OF", "SHARE", "OF")
    for gateway, uplink in paid:
        one = uplink["budget"]
        most = one["budget_bytes_per_day"]
        day = (f"{one['copied_bytes'] / 1e6:.1f}", "-" if most is None else f"{most / 1e6:.1f}")
        share = (f"{one['share']:.0%}", "-" if one["max_share"] is None else f"{one['max_share']:.0%}")
        yield (uplink["name"], gateway, *day, *share)


def _taking(status: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Terminals whose TCP goes to relays."""
    yield ("RELAYED", "GATEWAY", "CONNECTIONS", "BY RELAY", "DIRECTLY", "RESET", "BYTES UP", "DOWN")
    for taking in status["taking"]:
        for one in taking["terminals"]:
            counts = (
                str(one[each]) for each in ("connections", "relayed", "direct", "reset", "bytes_up", "bytes_down")
            )
            yield (one["name"], taking["gateway"], *counts)


def _instead(status: dict[str, Any], gateway: dict[str, Any], uplink: dict[str, Any]) -> str:
    """Who was to ride an uplink that is not up, and rides another."""
    rides: dict[str, list[str]] = {}
    for one in status["terminals"]:
        if (one["gateway"], one["active_uplink"]) == (gateway["name"], uplink["name"]):
            rides.setdefault(_carrier(gateway, one) or "nothing", []).append(one["name"])
    return "".join(f"; {carrier} carries {', '.join(names)} meanwhile" for carrier, names in rides.items())


def _carrier(gateway: dict[str, Any], terminal: dict[str, Any]) -> str | None:
    """The uplink that has what is not bicast: the switch itself takes the next one that is up, but not in mode off."""
    uplinks = sorted(gateway["uplinks"], key=lambda one: one["name"] != terminal["active_uplink"])
    if terminal["mode"] == "off":
        uplinks = uplinks[:1]
    led = (one for one in uplinks if one["up"] and any(hop["mac"] for hop in one["next_hops"]))
    return next((one["name"] for one in led), None)


def _link(gateway: dict[str, Any], uplink: dict[str, Any]) -> str:
    if gateway["state"] == "absent":
        return "-"
    if uplink["number"] is None:
        return "missing"
    return "up" if uplink["up"] else "down"


def _terminals(status: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield ("TERMINAL", "GATEWAY", "MODE", "ACTIVE", "ADDRESSES", "PACKETS UP", "DOWN", "BYTES UP", "DOWN")
    gateways = {one["name"]: one for one in status["gateways"]}
    for one in status["terminals"]:
        gateway = gateways[one["gateway"]]
        own = (place for place in one["addresses"] if not place["subnet"].startswith(RELAYING))
        addresses = ", ".join(f"{place['address']}@{place['port']}" for place in own)
        mode = _mode(one) + "".join(f", {each['name']}: {_mode(each)}" for each in one["classes"])
        active = one["active_uplink"] + CHOSEN_BY[one["active_by"]]
        uplink = next((each for each in gateway["uplinks"] if each["name"] == one["active_uplink"]), None)
        if uplink is not None and _link(gateway, uplink) in ("down", "missing"):
            active += f" ({_link(gateway, uplink)}; on {_carrier(gateway, one) or 'nothing'})"
        traffic = _traffic(one["sent"], one["received"])
        yield (one["name"], one["gateway"], mode, active, addresses, *traffic)


def _mode(one: dict[str, Any]) -> str:
    """Of a terminal, or of one class of its traffic; and what it comes to, where that is another."""
    mode = str(one["mode"]) + ("*" if one["mode_wished"] else "")
    return mode if one["acting"] == one["mode"] else f"{mode} ({one['acting']})"


def _agents(status: dict[str, Any], now: float) -> Iterator[tuple[str, ...]]:
    yield ("AGENT", "ROLE", "STATE", "REPORT", "TERMINALS", "PATHS BY", "VERSION", "CANNOT")
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
