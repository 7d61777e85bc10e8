# SPDX-License-Identifier: Apache-2.0
"""`bridge`: prepare this host's bridges for gateway.yaml."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import threading
from typing import Any, NoReturn

from cli import OK, Failure
from cli.host import add_site, chosen, need_root
from controller.model.config import Site
from gateway.bridge import StepOutcome, Work, await_controllers, carry_out, failures, preparation, undoing
from gateway.follow import follow
from gateway.host import HostError


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "bridge",
        help="prepare the bridge that a gateway.yaml names",
        description="Prepare this host's bridges for the controller: datapath, dpid, OpenFlow 1.3, fail_mode=secure, "
        "ports by name with fixed numbers, the controller's address, TLS (missing files that gateway.yaml "
        "names are created), and offloads off where Open vSwitch forwards in userspace. A second "
        "run changes nothing. OVS_RUNDIR selects the Open vSwitch, as for ovs-vsctl.",
    )
    parser.add_argument("file", metavar="FILE", help="a gateway.yaml")
    add_site(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--remove", action="store_true", help="undo: delete the bridges that this command created")
    what.add_argument(
        "--force",
        action="store_true",
        help="also use ports that carry this host's addresses, and bridges created by others",
    )
    what.add_argument(
        "--follow",
        action="store_true",
        help="stay, and prepare again whenever interfaces, addresses or routes of this host change; once each bridge "
        "is connected, Open vSwitch reconnects within 1 s",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the commands without running them")
    parser.add_argument("--json", action="store_true", help="print the changes as JSON")


def run(args: argparse.Namespace) -> int:
    need_root("bridge")
    if args.follow:
        _follow(args)
    config, sites = chosen(args.file, args.site)
    try:
        work = undoing(sites) if args.remove else preparation(config, sites, force=args.force)
        if args.dry_run:
            _commands(work, as_json=args.json)
            return OK
        done = _carried_out(work, as_json=args.json)
        failed = () if args.remove else failures(sites)
    except HostError as error:
        raise Failure(str(error)) from error
    _report(args.file, work, done, failed, as_json=args.json)
    if failed:
        look = shlex.join(["./bicast", "doctor", args.file])
        raise Failure(f"{'; '.join(failed)}: `{look}` shows what is wrong")
    return OK


def _follow(args: argparse.Namespace) -> NoReturn:
    """Prepare, and again after each change. A refusal or a failure is printed once, and the rest goes on."""
    _, sites = chosen(args.file, args.site)
    threading.Thread(target=_await_controllers, args=(sites,), daemon=True).start()
    complaint = ""

    def prepare() -> bool:
        nonlocal complaint
        before, complaint = complaint, ""
        try:
            for outcome in carry_out(preparation(*chosen(args.file, args.site))):
                if outcome.changed:
                    print(_line(outcome), flush=True)
        except (Failure, HostError) as error:
            complaint = str(error)
            if complaint != before:
                print(f"bicast: {complaint}", file=sys.stderr, flush=True)
        return not complaint

    follow(prepare)


def _await_controllers(sites: tuple[Site, ...]) -> None:
    try:
        await_controllers(sites)
        print(f"connected  {', '.join(site.bridge for site in sites)}", flush=True)
    except HostError as error:
        print(f"bicast: {error}", file=sys.stderr, flush=True)


def _commands(work: Work, *, as_json: bool) -> None:
    commands = [command for step in work.steps for command in step.commands]
    if as_json:
        print(json.dumps({"commands": commands}))
        return
    for command in commands:
        print(shlex.join(command))


def _carried_out(work: Work, *, as_json: bool) -> tuple[StepOutcome, ...]:
    done = []
    for outcome in carry_out(work):
        done.append(outcome)
        if not as_json:
            print(_line(outcome), flush=True)
    return tuple(done)


def _report(file: str, work: Work, done: tuple[StepOutcome, ...], failed: tuple[str, ...], *, as_json: bool) -> None:
    changed = sum(outcome.changed for outcome in done)
    if as_json:
        steps = [
            {
                "name": outcome.step.name,
                "changed": outcome.changed,
                "found": outcome.step.found,
                "wanted": outcome.step.wanted,
                "commands": outcome.step.commands,
                "answer": outcome.messages,
            }
            for outcome in done
        ]
        document = {
            "file": file,
            "changed": changed,
            "missing": work.missing,
            "awaited": work.awaited,
            "failed": failed,
            "steps": steps,
        }
        print(json.dumps(document))
        return
    for name in work.missing:
        print(f"missing  {name}: no such interface on this host yet; the bridge adds it as soon as it appears")
    for name in work.awaited:
        print(
            f"awaited  {name}: the site's agent creates it (bicast-agent run --role gateway); the bridge adds it then"
        )
    if not failed:
        print(f"{file}: {changed} changed" if changed else f"{file}: nothing to change")


def _line(outcome: StepOutcome) -> str:
    step = outcome.step
    if not outcome.changed:
        return f"failed   {step.name}: {step.fault}" if step.fault else f"right    {step.name}: {step.found}"
    messages = "".join(f" ({line})" for line in outcome.messages)
    verb = "failed " if outcome.failed else "changed"
    return f"{verb}  {step.name}: {step.wanted} (was: {step.found}){messages}"
