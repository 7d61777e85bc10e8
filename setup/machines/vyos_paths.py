# SPDX-License-Identifier: Apache-2.0
"""Print the configuration commands that every given version of VyOS has, below the nodes that vyos.rb configures.

    python setup/machines/vyos_paths.py 1.4.0=CHECKOUT 1.5-rolling-202408170020=CHECKOUT >tests/setup/vyos_paths.txt

A CHECKOUT is a git work tree of https://github.com/vyos/vyos-1x.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

SUBTREES = ("interfaces ethernet ", "protocols static route ", "qos interface ", "qos policy network-emulator ")
VLANS = "interfaces ethernet * vif"  # vif and vif-s repeat every option of an interface
INCLUDE = re.compile(r"^ *#include <(.+)>$", re.MULTILINE)


def expanded(path: Path, root: Path) -> str:
    """Return a definition with its included files in place of their #include lines."""
    return INCLUDE.sub(lambda line: expanded(root / line[1], root), path.read_text())


def commands(node: ElementTree.Element, above: str = "") -> Iterator[str]:
    """Yield the commands below a node. "*" stands for a tag node's name, "?" for a leaf's value."""
    for child in node:
        path = f"{above}{child.get('name')}"
        if child.tag == "leafNode":
            yield path if child.find("properties/valueless") is not None else f"{path} ?"
        elif child.tag in ("node", "tagNode"):
            if child.tag == "tagNode":
                path = f"{path} *"
                yield path
            for children in child.findall("children"):
                yield from commands(children, f"{path} ")


def version_commands(checkout: Path) -> set[str]:
    root = checkout / "interface-definitions"
    files = sorted(root.glob("*.xml.in"))
    if not files:
        raise SystemExit(f"{root}: no *.xml.in, expected a checkout of vyos-1x")
    every = (path for file in files for path in commands(ElementTree.fromstring(expanded(file, root))))
    return {path for path in every if path.startswith(SUBTREES) and not path.startswith(VLANS)}


def main(versions: list[str]) -> None:
    common: list[set[str]] = []
    print("# Written by setup/machines/vyos_paths.py. These commands exist in each of:")
    for each in versions:
        name, _, checkout = each.partition("=")
        commit = subprocess.check_output(["git", "-C", checkout, "rev-parse", "HEAD"], text=True).strip()
        print(f"#   VyOS {name}, vyos-1x {commit}")
        common.append(version_commands(Path(checkout)))
    print('# "*" stands for the name of a tag node, "?" for the value of a leaf.')
    print(*sorted(set.intersection(*common)), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
