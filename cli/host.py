# SPDX-License-Identifier: Apache-2.0
"""The input of `bridge` and `doctor`: gateway.yaml and its sites on this host."""

from __future__ import annotations

import argparse
import os

from cli import Failure
from controller.edges.config.load import load
from controller.model.config import Config, ConfigError, Site

SITE = "BICAST_SITE"


def add_site(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--site",
        action="append",
        metavar="NAME",
        help="only this site of the file (may be repeated): needed if other sites of the file run on other hosts "
        f"(default: ${SITE}, or all)",
    )


def chosen(file: str, names: list[str] | None) -> tuple[Config, tuple[Site, ...]]:
    try:
        config = load(file)
    except ConfigError as error:
        raise Failure(str(error)) from error
    names = names or os.environ.get(SITE, "").split()
    known = {site.name: site for site in config.sites}
    for name in names:
        if name not in known:
            raise Failure(f"{file} has no site {name}: expected one of {', '.join(known)}")
    return config, tuple(site for site in config.sites if not names or site.name in names)


def need_root(verb: str) -> None:
    if os.geteuid() != 0:
        raise Failure(f"{verb} needs root, for the kernel and Open vSwitch: run sudo ./bicast {verb} ...")
