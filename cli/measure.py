# SPDX-License-Identifier: Apache-2.0
"""`measure`: probe both directions of an uplink and print the result."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from typing import Any

from cli import OK, REFUSED, Failure
from cli.client import add_options, api_client
from cli.measured import interval
from controller.edges.http.client import Client
from controller.model.text import counted

LOOK_EVERY_S = 0.5  # the API has no event to wait for
WITHIN_S = 900.0  # minutes for a slow path, after earlier probes


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "measure",
        help="probe an uplink now and print its bandwidth",
        description="Probe the path of an uplink between two sites of the file now, "
        "in both directions, and print its bandwidth with the method and a 95 % confidence "
        "interval. This takes half a minute and sends some megabytes, regardless of the budget. The "
        "controller itself probes at most every ten minutes (docs/how-to/measure.md).",
    )
    parser.add_argument(
        "uplink",
        metavar="UPLINK",
        help="an uplink between two sites of gateway.yaml, or TERMINAL@ACCESS_POINT for the path between them",
    )
    parser.add_argument("--site", metavar="SITE", help="one of the two sites, if several uplinks have this name")
    parser.add_argument(
        "--link",
        metavar="MBITS",
        type=_rate,
        help="the path is one link of this known rate: measure and store the time per byte that both hosts need",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the paths as JSON, as the API returns them afterwards"
    )
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    with api_client(args) as client:
        asked_at = time.monotonic()
        before = _meant(client, args)  # earlier probes do not count
        client.measure(args.uplink, args.site, None if args.link is None else args.link * 1e6)
        paths = _ended(client, args, {_at(path): [way["ended"] for way in path["directions"]] for path in before})
    if args.json:
        print(json.dumps(paths, indent=2))
    else:
        print("\n".join(line for path in paths for line in _lines(path, args.link is not None)))
    waited_s = time.monotonic() - asked_at
    ways = [way for path in paths for way in path["directions"]]
    return OK if all(_is_known(way, args.link is not None, waited_s) for way in ways) else REFUSED


def _is_known(way: dict[str, Any], calibrates: bool, waited_s: float) -> bool:
    """Return whether this probe measured the direction. Without trains it may, but it calibrates no hosts."""
    if way["bps"] is None or not way["error"]:
        return way["bps"] is not None
    ages_s = [one["age_s"] for one in way["by_method"] if one["age_s"] is not None]
    return not calibrates and min(ages_s, default=waited_s) < waited_s


def _meant(client: Client, args: argparse.Namespace) -> list[dict[str, Any]]:
    paths = [path for path in client.get("paths") if path["uplink"] == args.uplink and path["directions"]]
    return [path for path in paths if args.site in (None, path["site"], path["near"], path["far"])]


def _ended(client: Client, args: argparse.Namespace, before: dict[tuple[str, str], list[int]]) -> list[dict[str, Any]]:
    deadline = time.monotonic() + WITHIN_S
    while True:
        paths = _meant(client, args)
        if before.keys() - set(map(_at, paths)):
            raise Failure(f"{args.uplink} was removed from gateway.yaml during the measurement")
        waits = next((path for path in paths if not _has_ended(path, before.get(_at(path)))), None)
        if waits is None:
            return paths
        if waits["why_not"] is not None:
            raise Failure(f"{args.uplink} of {waits['site']} can no longer be measured: {waits['why_not']}")
        if time.monotonic() > deadline:
            late = f"{args.uplink} was not measured within {WITHIN_S / 60:.0f} minutes"
            raise Failure(f"{late}; `./bicast status` shows its progress")
        time.sleep(LOOK_EVERY_S)


def _at(path: dict[str, Any]) -> tuple[str, str]:
    return path["site"], path["uplink"]


def _has_ended(path: dict[str, Any], before: list[int] | None) -> bool:
    """Use `before`, the ended probes by direction; None: the path is new in gateway.yaml."""
    ways = zip(path["directions"], before or [0, 0], strict=True)
    return all(way["ended"] > ended and not way["running"] for way, ended in ways)


def _lines(path: dict[str, Any], calibrates: bool) -> Iterator[str]:
    for way in path["directions"]:
        ends = (path["near"], path["far"]) if way["direction"] == "up" else (path["far"], path["near"])
        yield f"{path['uplink']}, {ends[0]} to {ends[1]}: {_figure(way)}"
        for one in way["by_method"]:
            found = interval(one) if one["bps"] is not None else f"not known: {one['reason']}"
            yield f"  {one['method']:<30}{found}"
        yield f"  {counted(way['sent'], 'packets')} sent singly, {way['lost']} lost, {way['reordered']} out of order"
        if way["mtu_bytes"] is not None:
            yield f"  no packet longer than an MTU of {way['mtu_bytes']} bytes arrived"
        if way["error"]:
            yield f"  incomplete: {way['error']}"
        if calibrates and not way["error"] and way["alpha_ns_per_byte"] is not None:
            yield f"  these hosts need {way['alpha_ns_per_byte']:.3f} ns per byte: stored, and subtracted from now on"


def _figure(way: dict[str, Any]) -> str:
    if way["bps"] is None:
        return f"not known: {way['reason']}"
    return f"{interval(way)}, by {' and '.join(way['methods'])}"


def _rate(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"found {text}, expected Mbit/s, more than 0")
    return value
