# SPDX-License-Identifier: Apache-2.0
"""`lan`: serve the devices of this host's LANs."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from pathlib import Path
from typing import Any, NoReturn

from cli import OK, Failure
from cli.host import add_site, chosen
from gateway import dnsmasq

DIRECTORY = Path("/var/lib/bicast-lan")


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "lan",
        help="serve the devices of this host's LANs with addresses and names",
        description="Run dnsmasq for each subnet of a gateway.yaml with `device`: DHCP, router advertisements and DNS. "
        "It forwards queries to the resolvers of this host. It runs until it is killed; after a change of the file, "
        "start it again.",
    )
    parser.add_argument("file", metavar="FILE", help="a gateway.yaml")
    add_site(parser)
    parser.add_argument(
        "--directory",
        type=Path,
        default=DIRECTORY,
        metavar="DIRECTORY",
        help=f"where the leases are kept (default: {DIRECTORY})",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the command without running it")


def run(args: argparse.Namespace) -> int:
    _, sites = chosen(args.file, args.site)
    command = dnsmasq.command(sites, args.directory)
    if not command:
        raise Failure(f"{args.file}: no subnet of this host has `device`, so there is no LAN to serve")
    if not args.dry_run:
        _become(command, args.directory)
    print(shlex.join(command))
    return OK


def _become(command: tuple[str, ...], directory: Path) -> NoReturn:
    program = shutil.which(command[0])
    if program is None:
        raise Failure("dnsmasq is not installed: apt-get install -y dnsmasq-base")
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    os.execv(program, command)
