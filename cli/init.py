# SPDX-License-Identifier: Apache-2.0
"""`init`: make a bare machine a home or its far site."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from cli import OK, USAGE, Failure, uninstall
from cli.host import need_root
from cli.uninstall import report
from controller.edges.http.client import Denied, NoAnswer
from gateway.host import HostError
from gateway.init.alone import AloneInit
from gateway.init.facts import Ambiguous, HomeFacts
from gateway.init.far import FarInit
from gateway.init.home import HomeInit
from gateway.init.invitation import invitation
from gateway.init.made import Places
from gateway.init.services import Systemd


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "init",
        help="make two bare machines a home and its far site, or one a home",
        description="First run `bicast init --far` on the rented machine. It prints a line to type at home. Then both "
        "machines write gateway.yaml, prepare their bridges, start the services and connect. Without a rented machine, "
        "run `bicast init --alone` at home. A second run changes nothing, and goes on where a killed run stopped.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "invitation", metavar="INVITATION", nargs="?", help="at home: the word that `bicast init --far` printed"
    )
    what.add_argument("--far", action="store_true", help="on the rented machine: print the line for home and wait")
    what.add_argument("--alone", action="store_true", help="at home, without a rented machine: failover, no copies")
    what.add_argument("--undo", action="store_true", help="the same as `bicast uninstall`")
    parser.add_argument(
        "--address", metavar="ADDRESS", help="with --far: this machine's public address, if its device has another one"
    )
    parser.add_argument(
        "--device",
        metavar="DEVICE",
        help="with --far: the device towards the Internet (default: that of the default route)",
    )
    parser.add_argument(
        "--uplink",
        action="append",
        default=[],
        metavar="NAME=DEVICE",
        help="at home: an uplink, the preferred one first (default: the devices with a default route, by metric)",
    )
    parser.add_argument(
        "--lan",
        metavar="DEVICE",
        help="at home: the device of the LAN (default: the only ethernet device left)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and change nothing")


def run(args: argparse.Namespace) -> int:
    if args.undo:
        return uninstall.run(args)
    need_root("init")
    far_only, home_only = (args.address, args.device), (args.lan, *args.uplink)
    if args.far and any(home_only):
        raise Failure("--uplink and --lan belong to home: give them there, with the invitation", USAGE)
    if not args.far and any(far_only):
        raise Failure("--address and --device belong to the rented machine: give them there, with --far", USAGE)
    try:
        if args.alone:
            return _alone(args)
        return _far(args) if args.far else _home(args)
    except (HostError, NoAnswer, Denied) as error:
        raise Failure(str(error)) from error


def _far(args: argparse.Namespace) -> int:
    far = FarInit(Places(), Systemd(), args.address, args.device)
    if far.is_done():
        print("this machine is a far site already, and its home is connected: nothing to change")
    elif args.dry_run:
        print(*far.plan(), sep="\n")
    else:
        far.serve(_say_invitation, report)
    return OK


def _say_invitation(line: str) -> None:
    if line.startswith("bicast init "):
        print("type this at home, within 15 minutes; it works once:", flush=True)
        line = f"  {line}"
    print(line, flush=True)


def _home(args: argparse.Namespace) -> int:
    invited = invitation(args.invitation)
    home = HomeInit(Places(), Systemd())
    if home.is_done():
        print("this machine is a home already, and its tunnels exist: nothing to change")
        return OK
    chosen = _chosen(home, args)
    if args.dry_run:
        print(*home.plan(chosen, invited), sep="\n")
        return OK
    home.join(invited, chosen, _say, report)
    print(f"all tunnels are up: connect your devices to {chosen.lan}")
    return OK


def _alone(args: argparse.Namespace) -> int:
    home = AloneInit(Places(), Systemd())
    if home.is_done():
        print("this machine is a home already, and its agent is connected: nothing to change")
        return OK
    chosen = _chosen(home, args)
    if args.dry_run:
        print(*home.plan(chosen), sep="\n")
        return OK
    home.begin(chosen, report)
    print(f"ready: connect your devices to {chosen.lan}; `bicast status` shows them")
    return OK


def _chosen(home: HomeInit, args: argparse.Namespace) -> HomeFacts:
    try:
        return home.choose(args.uplink, args.lan)
    except Ambiguous as error:
        if not sys.stdin.isatty():
            raise
        answer = input(f"Which device is the LAN ({', '.join(error.options)})? ").strip()
        return home.choose(args.uplink, answer)


def _say(line: str) -> None:
    print(line, flush=True)
