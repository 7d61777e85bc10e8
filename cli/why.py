# SPDX-License-Identifier: Apache-2.0
"""`why`: a terminal's state and last decisions; or a destination's relay."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

from cli import LONGEST, OK, USAGE, Failure
from cli.client import add_options, api_client
from cli.relayed import explained, resolved
from controller.features.steering.logbook import UNORDERED
from controller.model.text import CUT, counted, shortened

WHO = {"people": "somebody", "policy": "policies", "failover": "an armed failover"}


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "why",
        help="explain why a terminal uses its uplink, or which relay serves a destination",
        description="Show the health of a terminal's uplinks, the agents that move its connections, and its "
        "last decisions, newest first, each with its measurements and its results at the gateway and the agents. Or "
        "show which relay the connections of relayed terminals use for a destination; missing figures are "
        "measured first.",
    )
    of = parser.add_mutually_exclusive_group(required=True)
    of.add_argument("terminal", metavar="TERMINAL", nargs="?", help="a terminal of gateway.yaml")
    of.add_argument("--relay", metavar="DEST", help="a destination: an address or a name of a server")
    parser.add_argument("--site", metavar="SITE", help="with --relay: from this site only (default: from every site)")
    parser.add_argument(
        "--json", action="store_true", help="print JSON as /api/v1/terminals/TERMINAL/decisions returns it"
    )
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    if args.relay is not None:
        return _relay(args)
    if args.site is not None:
        raise Failure("--site needs --relay: a terminal belongs to one site", USAGE)
    with api_client(args) as client:
        course = client.get("terminals", args.terminal, "decisions")
    if args.json:
        print(json.dumps(course, indent=2))
    else:
        print("\n".join(_lines(course)))
        if any(
            len(outcome["answer"]) > LONGEST for decision in course["decisions"] for outcome in decision["outcomes"]
        ):
            print(f"\ntexts that end in{CUT} are cut: `./bicast why {args.terminal} --json`")
    return OK


def _relay(args: argparse.Namespace) -> int:
    address = resolved(args.relay)
    with api_client(args) as client:
        destinations = client.destination(address, args.site)
    print(
        json.dumps(destinations, indent=2)
        if args.json
        else "\n\n".join("\n".join(explained(one)) for one in destinations)
    )
    return OK


def _lines(course: dict[str, Any]) -> Iterator[str]:
    chosen = {"people": "a person chose it", "policies": "policies chose it", "default": "its default"}
    yield f"{course['terminal']} is on {course['active_uplink']}: {chosen[course['active_by']]}"
    yield _copying(course["copying"])
    yield from _copied(course["copying"])
    movers = ", ".join(course["movers"])
    yield f"its connections are moved by {movers}" if movers else f"its connections are not moved: {course['unmoved']}"
    for end, there in (("own", course["own_end"]), ("other", course["other_end"])):
        agents = ", ".join(there["agents"])
        yield f"its {end} end is reported by {agents or 'nobody'}{'' if agents else ': ' + there['nobody']}"
    for one in course["armed_failovers"]:
        yield _failover(one)
    yield ""
    for one in course["uplinks"]:
        yield f"{one['uplink']} is {one['health']} since {_clock(one['since'])}: {one['reason']}"
    for decision in course["decisions"]:
        yield ""
        yield from _decision(decision)


def _copying(one: dict[str, Any]) -> str:
    acts = {"bicast": "with copies", "single": "on one path", "off": "without the controller's help"}
    since = f" since {_clock(one['since'])}" if one["since"] is not None else ""
    return f"it is in mode {one['mode']}, {acts[one['acting']]}{since}: {one['reason']}"


def _copied(one: dict[str, Any]) -> Iterator[str]:
    if one["acting"] == "bicast":
        why_not = f" only, because {one['whole']}" if one["whole"] is not None else ""
        yield f"copied: {', '.join(one['copied'])}{why_not}"
    for sent, what in ((True, "it sent"), (False, "it received")):
        passed = [each for each in one["traffic"]["passed"] if each["sent"] is sent]
        if passed:
            counts = (f"{each['traffic']}: {each['copied']} copied, {each['alone']} not" for each in passed)
            yield f"packets that {what} in the last {one['traffic']['seconds']:.0f} s: {'; '.join(counts)}"


def _failover(one: dict[str, Any]) -> str:
    what = f"from {one['watched']} to {one['fallback']} after {one['no_progress_ms']} ms without progress"
    if one["refused"]:
        return f"not armed at {one['agent']}, which refused: {what}: {one['refused']}"
    if one["away"]:
        ends = f"its lease ends at {_clock(one['until'])}, or earlier if the agent has ended"
        return f"was armed at {one['agent']}, which {one['away']}: {what}; {ends}"
    return f"armed at {one['agent']}: {what}"


def _decision(decision: dict[str, Any]) -> Iterator[str]:
    how = ", hard (data in flight is sent again)" if decision["hard"] else ""
    stays = decision["left"] == decision["uplink"]
    move = f"stay on {decision['uplink']}" if stays else f"from {decision['left']} to {decision['uplink']}"
    if decision["copies"] is not None:
        move = "copies begin" if decision["copies"] else f"copies end, only {decision['uplink']} is used"
    yield f"{_clock(decision['at'])}  {WHO[decision['by']]}: {move}{how}"
    yield f"    because {decision['reason']}"
    if decision["reporters"]:
        yield f"    as reported by {', '.join(decision['reporters'])}"
    for agent in decision["outcomes"]:
        yield f"    {_agent_result(agent)}"
    if decision["unmoved"]:
        yield f"    {decision['unmoved']}: {UNORDERED}"


def _agent_result(agent: dict[str, Any]) -> str:
    answer = shortened(agent["answer"], LONGEST)
    if agent["agent"] is None:
        state = {True: "", False: " (not done)", None: " (not confirmed yet)"}[agent["done"]]
        return f"{answer}{state}"
    if agent["done"] is None:
        return f"{agent['agent']}: no answer yet"
    state = "" if agent["done"] else "not done: "
    reached = f"reached {counted(agent['connections'], 'connections')}"
    if agent["took_us"]:  # unknown after an armed failover
        reached += f" in {agent['took_us']} us"
    again = f", {agent['orders']} orders" if agent["orders"] > 1 else ""
    return f"{agent['agent']}: {state}{answer} ({reached}{again})"


def _clock(moment: float) -> str:
    thousandths = int(moment * 1000) % 1000
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(moment))}.{thousandths:03d}"
