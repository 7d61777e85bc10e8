# SPDX-License-Identifier: Apache-2.0
"""`uninstall`: take back all that `init` did to this machine."""

from __future__ import annotations

import argparse
from typing import Any

from cli import OK, Failure
from cli.host import need_root
from gateway.host import HostError
from gateway.init.made import Change, Made, Places
from gateway.init.services import Systemd
from gateway.init.steps import carry_out, uninstalled


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "uninstall",
        help="take back all that `bicast init` did to this machine",
        description="Stop the services, delete the bridge, and remove the files, the openings of the firewall and the "
        "state that `bicast init` made. Packages and trees stay. A second run changes nothing.",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and change nothing")


def run(args: argparse.Namespace) -> int:
    need_root("uninstall")
    places = Places()
    made = Made(places)
    if not made:
        print("`bicast init` made nothing on this machine: nothing to remove")
        return OK
    try:
        changes = uninstalled(places, made, Systemd())
        if args.dry_run:
            for change in changes:
                if change.act is not None:
                    print(f"would make {change.name}: {change.wanted} (is: {change.found})")
            return OK
        count = carry_out(changes, report)
    except HostError as error:
        raise Failure(str(error)) from error
    print(f"removed: {count} changes; this machine is as it was before `bicast init`")
    return OK


def report(change: Change) -> None:
    if change.act is not None:
        print(f"changed  {change.name}: {change.wanted} (was: {change.found})", flush=True)
