# SPDX-License-Identifier: Apache-2.0
"""`measure`: have an uplink probed now, both ways, wait for what comes of it, and tell that."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from typing import Any

from cli import OK, REFUSED, Failure
from cli.client import add_options, asked
from cli.measured import interval
from controller.edges.http.client import Client
from controller.model.text import counted

LOOK_EVERY_S = 0.5  # the API has no event to wait for
WITHIN_S = 900.0  # on a slow road a probe takes minutes, and waits for those before it


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "measure",
        help="have an uplink probed now, and tell its bandwidth",
        description="Have the road of an uplink between two of our sites probed now, in both directions, and tell what "
        "it carries: by which method, and the interval that has the true rate in it in 95 of 100 cases. It takes half "
        "a minute and puts some megabytes there, whatever was spent today; without being asked the controller does "
        "it every ten minutes at most (docs/how-to/measure.md).",
    )
    parser.add_argument(
        "uplink",
        metavar="UPLINK",
        help="an uplink of gateway.yaml between two sites of it, or TERMINAL@ACCESS_POINT for the air between",
    )
    parser.add_argument("--site", metavar="SITE", help="either of the two, where uplinks of several have that name")
    parser.add_argument(
        "--link",
        metavar="MBITS",
        type=_rate,
        help="the road is one link of this rate: what both hosts take for each byte is found by that, and kept",
    )
    parser.add_argument("--json", action="store_true", help="the roads as the API tells of them afterwards")
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    with asked(args) as client:
        asked_at = time.monotonic()
        before = _meant(client, args)  # who asks first may see the end of another probe
        client.measure(args.uplink, args.site, None if args.link is None else args.link * 1e6)
        roads = _ended(client, args, {_at(road): [way["ended"] for way in road["directions"]] for road in before})
    if args.json:
        print(json.dumps(roads, indent=2))
    else:
        print("\n".join(line for road in roads for line in _lines(road, args.link is not None)))
    waited_s = time.monotonic() - asked_at
    ways = [way for road in roads for way in road["directions"]]
    return OK if all(_is_known(way, args.link is not None, waited_s) for way in ways) else REFUSED


def _is_known(way: dict[str, Any], calibrates: bool, waited_s: float) -> bool:
    """By this probe. One that was not whole, a train being left out, may have told it; it calibrates no hosts."""
    if way["bps"] is None or not way["error"]:
        return way["bps"] is not None
    ages_s = [one["age_s"] for one in way["by_method"] if one["age_s"] is not None]
    return not calibrates and min(ages_s, default=waited_s) < waited_s


def _meant(client: Client, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Those that are measured, by either end's name."""
    roads = [road for road in client.get("roads") if road["uplink"] == args.uplink and road["directions"]]
    return [road for road in roads if args.site in (None, road["site"], road["near"], road["far"])]


def _ended(client: Client, args: argparse.Namespace, before: dict[tuple[str, str], list[int]]) -> list[dict[str, Any]]:
    """When all that was asked for has come to an end."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        roads = _meant(client, args)
        if before.keys() - set(map(_at, roads)):
            raise Failure(f"{args.uplink} went out of gateway.yaml while it was measured")
        waits = next((road for road in roads if not _has_ended(road, before.get(_at(road)))), None)
        if waits is None:
            return roads
        if waits["why_not"] is not None:
            raise Failure(f"{args.uplink} of {waits['site']} cannot be measured any more: {waits['why_not']}")
        if time.monotonic() > deadline:
            late = f"{args.uplink} was not measured within {WITHIN_S / 60:.0f} minutes"
            raise Failure(f"{late}; `./bicast status` tells what becomes of it")
        time.sleep(LOOK_EVERY_S)


def _at(road: dict[str, Any]) -> tuple[str, str]:
    return road["site"], road["uplink"]


def _has_ended(road: dict[str, Any], before: list[int] | None) -> bool:
    """`before`: how many probes had, of each direction; None: it has come into gateway.yaml since."""
    ways = zip(road["directions"], before or [0, 0], strict=True)
    return all(way["ended"] > ended and not way["running"] for way, ended in ways)


def _lines(road: dict[str, Any], calibrates: bool) -> Iterator[str]:
    for way in road["directions"]:
        ends = (road["near"], road["far"]) if way["direction"] == "up" else (road["far"], road["near"])
        yield f"{road['uplink']}, {ends[0]} to {ends[1]}: {_figure(way)}"
        for one in way["by_method"]:
            found = interval(one) if one["bps"] is not None else f"not known: {one['because']}"
            yield f"  {one['method']:<30}{found}"
        yield f"  {counted(way['sent'], 'packets')} alone, {way['lost']} lost, {way['reordered']} out of order"
        if way["mtu_bytes"] is not None:
            yield f"  nothing longer came than fits an MTU of {way['mtu_bytes']} bytes"
        if way["error"]:
            yield f"  not whole: {way['error']}"
        if calibrates and not way["error"] and way["alpha_ns_per_byte"] is not None:
            yield f"  these hosts take {way['alpha_ns_per_byte']:.3f} ns a byte: kept, and taken off from now on"


def _figure(way: dict[str, Any]) -> str:
    if way["bps"] is None:
        return f"not known: {way['because']}"
    return f"{interval(way)}, by {' and '.join(way['methods'])}"


def _rate(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"found {text}, expected Mbit/s, more than 0")
    return value
