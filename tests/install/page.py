# SPDX-License-Identifier: Apache-2.0
"""The lines that docs/how-to/install.md tells its reader to type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tests.setup.place import TREE

PAGE = TREE / "docs" / "how-to" / "install.md"
HOME, FAR = "home", "far"
INVITATION = "203.0.113.9:8654/TOKEN.PIN"  # the page's example


@dataclass(frozen=True, slots=True)
class Typed:
    machine: str
    line: str


def typed(section: str) -> tuple[Typed, ...]:
    """Return the lines of a section. The paragraph before a block names the machines."""
    blocks = re.split(r"\n\n", _section(section))
    return tuple(
        Typed(machine, line)
        for paragraph, block in pairwise(blocks)
        if block.startswith("```sh\n")
        for machine in _machines(paragraph)
        for line in _lines(block)
    )


def printed(section: str) -> tuple[str, ...]:
    """Return the lines that the page shows as output."""
    shown = re.findall(r"^```text\n(.*?)^```$", _section(section), re.DOTALL | re.MULTILINE)
    return tuple(line.strip() for block in shown for line in block.splitlines())


def _section(name: str) -> str:
    return PAGE.read_text(encoding="utf-8").partition(f"\n## {name}\n")[2].partition("\n## ")[0].strip()


def _machines(paragraph: str) -> tuple[str, ...]:
    if "each machine" in paragraph or "both machines" in paragraph:
        return (HOME, FAR)
    return (FAR,) if "rented machine" in paragraph else (HOME,)


def _lines(block: str) -> Iterator[str]:
    for line in block.removeprefix("```sh\n").removesuffix("```").splitlines():
        command = line.partition(" #")[0].rstrip()
        if command:
            yield command
