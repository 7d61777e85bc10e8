# SPDX-License-Identifier: Apache-2.0
"""`bicast render`: gateway.yaml's program as ovs-ofctl files, for an OVS without controller."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cli import Failure
from controller.edges.config import load
from controller.model.config import ConfigError, Site
from controller.program.compile import compile
from controller.program.render import Renderer, Unwritten, known_from_file

TREE = Path(__file__).resolve().parent.parent
OVS_FLOWS = TREE / "ovs-flows"
RENDERED_HERE = (TREE / "topologies" / "paper.yaml", OVS_FLOWS / "office.yaml")


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "render",
        help="write ovs-flows/: the program as files for an Open vSwitch without a controller",
        description="Write the groups and flows of a gateway.yaml as files for ovs-ofctl, one folder per site, "
        "named after the site, or after the file if it has one site. Ports are written by name. Every MAC must be "
        "in the file, because a switch without a controller learns none. ovs-flows/load.sh BRIDGE FOLDER loads them "
        "into a bridge.",
    )
    parser.add_argument(
        "file", nargs="*", metavar="FILE", help="gateway.yaml files (default: those whose flows are in this repository)"
    )
    parser.add_argument(
        "--into", metavar="DIRECTORY", default=str(OVS_FLOWS), help="output folder (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    for path in [Path(file) for file in args.file] or RENDERED_HERE:
        for folder in write(path, Path(args.into)):
            print(f"{path}: written to {folder}")
    return 0


def write(path: Path, into: Path) -> list[Path]:
    try:
        sites = load.load(str(path)).sites
        return [_write_site(site, path, into / (path.stem if len(sites) == 1 else site.name)) for site in sites]
    except (ConfigError, Unwritten) as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"{into} cannot be written: {error.strerror}") from None


def _write_site(site: Site, path: Path, folder: Path) -> Path:
    known = known_from_file(site)
    program, render = compile(site, known), Renderer(known.observed.ports)
    folder.mkdir(parents=True, exist_ok=True)
    head = f"# Site {site.name} of {path.name}, written by `bicast render`; change the configuration, not this file.\n"
    (folder / "groups.txt").write_text(head + "\n".join(render.groups(program)) + "\n", encoding="utf-8")
    (folder / "flows.txt").write_text(head + "\n".join(render.flows(program)) + "\n", encoding="utf-8")
    return folder
