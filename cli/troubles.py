# SPDX-License-Identifier: Apache-2.0
"""Sentences about problems in a status."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from cli import relay
from cli.tables import ago
from controller.edges.runtime.version import VERSION
from controller.model.text import counted
from controller.protocol.enrolment import EnrolmentState

STILL_TRIES_S = 1200.0  # twice an agent's longest retry interval without a valid certificate


def troubles(status: dict[str, Any]) -> Iterator[str]:
    if status["version"] != VERSION:
        yield (
            f"the controller runs version {status['version']}, this command is {VERSION}: restart the "
            "upgraded controller"
        )
    if status["config_error"] is not None:
        loaded = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status["config_loaded_at"]))
        yield (
            f"configuration: the file was refused, and the one loaded at {loaded} stays in force: "
            f"{status['config_error']}"
        )
    if status["openflow_unproven"] is not None:
        yield status["openflow_unproven"]
    agents = {one["name"] for one in status["agents"] if one["state"] != "gone" and one["role"] == "gateway"}
    for gateway in status["gateways"]:
        yield from _of_gateway(status, gateway, gateway["name"] in agents)
    yield from _unshared(status["access_points"])
    yield from relay.troubles(status["relays"])
    for site in status["interceptions"]:
        if site["why_not"] is not None:
            yield f"{site['gateway']}: terminals' TCP is not intercepted as configured: {site['why_not']}"
    for agent in status["agents"]:
        if agent["state"] == "silent":
            yield f"agent {agent['name']}: it is connected but has not reported for three periods"
        for missing in agent["missing"] if agent["state"] != "gone" else ():
            yield f"agent {agent['name']} cannot {missing['capability']}: {missing['reason']}"


def _of_gateway(status: dict[str, Any], gateway: dict[str, Any], has_agent: bool) -> Iterator[str]:
    name = gateway["name"]
    if gateway["state"] == "absent":
        yield (
            f"{name}: no switch of dpid {gateway['dpid']} is connected; on its machine, "
            f"`./bicast doctor {status['config_path']}` shows why"
        )
    if gateway["rival"] is not None:
        yield (
            f"{name}: two switches have dpid {gateway['dpid']}: {gateway['peer']}, which is "
            f"in use, and {gateway['rival']}, which is not; give each bridge its own dpid (ovs-vsctl "
            "set bridge NAME other-config:datapath-id=16 HEX DIGITS) and one controller target (ovs-vsctl "
            "get-controller NAME)"
        )
    if gateway["last_error"] is not None:
        yield f"{name}: {gateway['last_error']}"
    copies = gateway["copies"]
    if copies is not None and not copies["eliminated"] and has_agent:
        yield f"{name}: duplicates are not eliminated: {copies['reason']}"
    for silent in copies["silent"] if copies is not None else ():
        yield f"{name}: {silent['uplink']}: {silent['reason']}; copies over it give no protection now"
    for one in copies["unidentified"] if copies is not None else ():
        yield f"{name}: {one['uplink']}: {one['reason']}; `ethtool -k DEVICE` shows whether its port merges"
    for uplink in gateway["uplinks"]:
        if uplink["tunnel"] is not None and not uplink["tunnel"]["up"]:
            yield f"{name}: {uplink['name']}: its tunnel is down: {uplink['tunnel']['reason']}"
        if uplink["tunnel"] is not None and not uplink["tunnel"]["encrypted"]:
            yield f"{name}: {uplink['name']}: its tunnel is not encrypted (`encryption: none`)"
        if uplink["budget"] is not None and uplink["budget"]["barred"] is not None:
            yield f"{name}: {uplink['name']}: no copies are sent over it: {uplink['budget']['barred']}"
        if uplink["budget"] is not None and uplink["budget"]["nearly"] is not None:
            yield f"{name}: {uplink['name']}: its budget is {uplink['budget']['nearly']}"
    for port, reason in gateway["fitting"]["missing"] if gateway["fitting"] is not None else ():
        yield f"{name}: {port}: senders do not learn the longest packet size: {reason}"
    for conflict in gateway["conflicts"]:
        yield f"{name}: a foreign flow takes the place of a flow of this controller: {conflict}"
    for uplink in gateway["uplinks"]:
        if uplink["number"] is None and gateway["state"] != "absent":
            missing = f"{gateway['bridge']} has no port {uplink['port']}"
            yield f"{name}: {uplink['name']}: {missing}{_instead(status, gateway, uplink)}"
        elif link(gateway, uplink) == "down":
            down = f"its port {uplink['port']} is down"
            yield f"{name}: {uplink['name']}: {down}{_instead(status, gateway, uplink)}"


def _unshared(access_points: list[dict[str, Any]]) -> Iterator[str]:
    """Yield unenforced caps and reports that are not believed."""
    for place in access_points:
        name = f"{place['gateway']}: access point {place['name']}"
        if place["released"] is not None:
            yield f"{name}: caps are released: {place['released']}"
        for port, reason in place["missing"]:
            yield f"{name}: caps are not enforced at the port {port}: {reason}"
        for one in place["terminals"]:
            if one["most_segments"] is not None and one["agent"] is None:
                yield f"{name}: no agent enforces the cap of {one['terminal']}: {one['reason']}"
            if one["instead"] is not None:
                yield f"{name}: {one['agent']} enforces the cap of {one['terminal']}, because {one['instead']}"
            if one["doubts"]:
                times = counted(one["doubted"], "times")
                sentence = f"reports about {one['terminal']} are implausible and ignored, {times} so far"
                yield f"{name}: {sentence}: {'; '.join(one['doubts'])}"


def revoked_tries(enrolled: list[dict[str, Any]], now: float) -> Iterator[str]:
    for one in enrolled:
        name, tried_at = one["name"], one["tried_at"]
        if one["standing"] == EnrolmentState.REVOKED and tried_at is not None and now - tried_at < STILL_TRIES_S:
            yield (
                f"agent {name}: it was revoked and still tries to connect, {ago(now - tried_at)} ago from "
                f"{one['tried_from']}; stop it there, or admit it again with `{_enrols(one)}` and `bicast-agent join`"
            )


def _enrols(one: dict[str, Any]) -> str:
    role = f" --role {one['role']}" if one["role"] else ""
    terminal = f" --terminal {one['terminal']}" if one["terminal"] not in (None, one["name"]) else ""
    return f"./bicast enroll {one['name']}{role}{terminal}"


def _instead(status: dict[str, Any], gateway: dict[str, Any], uplink: dict[str, Any]) -> str:
    rides: dict[str, list[str]] = {}
    for one in status["terminals"]:
        if (one["gateway"], one["active_uplink"]) == (gateway["name"], uplink["name"]):
            rides.setdefault(carrier(gateway, one) or "nothing", []).append(one["name"])
    return "".join(f"; meanwhile {carrier} carries {', '.join(names)}" for carrier, names in rides.items())


def carrier(gateway: dict[str, Any], terminal: dict[str, Any]) -> str | None:
    """Return the uplink of packets without copies. Except in mode off, the switch takes the next one up."""
    uplinks = sorted(gateway["uplinks"], key=lambda one: one["name"] != terminal["active_uplink"])
    if terminal["mode"] == "off":
        uplinks = uplinks[:1]
    led = (one for one in uplinks if one["up"] and any(hop["mac"] for hop in one["next_hops"]))
    return next((one["name"] for one in led), None)


def link(gateway: dict[str, Any], uplink: dict[str, Any]) -> str:
    if gateway["state"] == "absent":
        return "-"
    if uplink["number"] is None:
        return "missing"
    return "up" if uplink["up"] else "down"
