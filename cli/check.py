# SPDX-License-Identifier: Apache-2.0
"""`check`: find errors in gateway.yaml before the controller starts."""

from __future__ import annotations

import argparse
import json
from typing import Any

from cli import OK, REFUSED, Failure
from controller.edges.config.checks import remarks
from controller.edges.config.load import load
from controller.model.config import Config, ConfigError, Site
from controller.model.relaying import RELAYING
from controller.model.text import counted


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "check",
        help="check a gateway.yaml and list its errors",
        description="Read a gateway.yaml like the controller. Each error names the place in the file, "
        "the value there and the expected value. Nothing is changed, and no controller is needed.",
    )
    parser.add_argument("file", metavar="FILE", help="a gateway.yaml")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    try:
        config = load(args.file)
    except ConfigError as error:
        if not args.json:
            raise Failure(str(error)) from error
        verdict = {"file": error.file, "where": error.where, "value": error.value, "expected": error.expected}
        print(json.dumps({"good": False, **verdict}, default=repr))
        return REFUSED
    if args.json:
        print(json.dumps({"good": True, "file": args.file, "gateways": _counts(config), "remarks": [*remarks(config)]}))
    else:
        for name, counts in _counts(config).items():
            print(f"{args.file}: {name}: " + ", ".join(counted(count, what) for what, count in counts.items()))
        for remark in remarks(config):
            print(f"{args.file}: {remark}")
        print(f"{args.file} is valid")
    return OK


def _counts(config: Config) -> dict[str, dict[str, int]]:
    return {site.name: _of_site(site) for site in config.sites}


def _of_site(site: Site) -> dict[str, int]:
    """Count a site's parts without the subnets that relaying adds."""
    counts = {
        "uplinks": len(site.uplinks),
        "subnets": sum(not each.name.startswith(RELAYING) for each in site.subnets),
        "terminals": len(site.terminals),
    }
    relayed = sum(each.relayed for each in site.terminals)
    return counts | {"relayed terminals": relayed} if site.relaying else counts
