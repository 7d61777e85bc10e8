# SPDX-License-Identifier: Apache-2.0
"""`caps`: window limits per access point, with agent and reason."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from cli import OK
from cli.client import add_options, api_client
from cli.measured import bandwidth
from cli.tables import aligned

NOWHERE = "gateway.yaml has no access point; docs/explanation/caps.md shows how to add one"


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "caps",
        help="list the terminals of each access point with their window limits",
        description="Show each access point with its rule, and each of its terminals: whether it "
        "sends, its connections, its round-trip time relative to the minimum (RTT), its maximum window in segments "
        "(MOST), its minimum window even after losses (LEAST), the agent that enforces it, and the reason.",
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON as /api/v1/caps returns it, with each pair of addresses"
    )
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    with api_client(args) as client:
        access_points = client.get("caps")
    if args.json:
        print(json.dumps(access_points, indent=2))
    elif not access_points:
        print(NOWHERE)
    else:
        parts = [aligned(_access_points(access_points))]
        if any(one["terminals"] for one in access_points):
            parts.append(aligned(_terminals(access_points)))
        if notes := [*_released(access_points), *_doubts(access_points)]:
            parts.append("\n".join(notes))
        print("\n\n".join(parts))
    return OK


def _access_points(access_points: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    yield ("ACCESS POINT", "GATEWAY", "RULE", "ACTIVE", "RECOMMENDED WRITE", "BANDWIDTH")
    for one in access_points:
        rule = f"{one['rule']} ({one['tables']})" if one["tables"] else one["rule"]
        block = "-" if one["block_bytes"] is None else f"{one['block_bytes']} bytes"
        yield (one["name"], one["gateway"], rule, str(one["active"]), block, bandwidth(one))


def _terminals(access_points: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    yield ("TERMINAL", "ACCESS POINT", "ACTIVE", "CONNECTIONS", "RTT", "MOST", "LEAST", "ENFORCED BY", "WHY")
    for access_point, one in ((there, each) for there in access_points for each in there["terminals"]):
        active = "-" if not one["reporting"] else "yes" if one["active"] else "no"
        ratio = "-" if one["rtt_ratio"] is None else f"x{one['rtt_ratio']:.1f}"
        most, least = (_segments(one[each]) for each in ("most_segments", "least_segments"))
        holder = (
            "-"
            if one["agent"] is None
            else f"{one['agent']} ({one['method']}{'' if one['held'] else ', not completely'})"
        )
        counts = (str(one["connections"]), ratio, most, least)
        reason = one["reason"] if one["instead"] is None else f"{one['reason']}; {one['instead']}"
        yield (one["terminal"], access_point["name"], active, *counts, holder, reason)


def _segments(segments: int | None) -> str:
    return "-" if segments is None else str(segments)


def _released(access_points: list[dict[str, Any]]) -> Iterator[str]:
    for one in access_points:
        if one["released"] is not None:
            yield f"! {one['name']}: caps are released: {one['released']}"


def _doubts(access_points: list[dict[str, Any]]) -> Iterator[str]:
    for one in (each for access_point in access_points for each in access_point["terminals"] if each["doubts"]):
        yield f"! {one['terminal']}: implausible reports ignored: {'; '.join(one['doubts'])}"
