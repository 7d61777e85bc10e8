# SPDX-License-Identifier: Apache-2.0
"""Mutants: faults of one line that the tests must catch, kept as data in the YAML files beside this one.

fault   what is broken, in plain words
file    where
old     a part of one line, which occurs in the file exactly once
new     what the fault makes of it
tests   what catches it: FILE or FILE::TEST, in Python or in Go
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

PLACE = Path(__file__).resolve().parent
TREE = PLACE.parents[1]


@dataclass(frozen=True, slots=True)
class Mutant:
    fault: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, text: str) -> str:
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {self.old!r} {text.count(self.old)} times: expected once")
        return text.replace(self.old, self.new)

    @property
    def where(self) -> str:
        before, _, _ = (TREE / self.file).read_text().partition(self.old)
        return f"{self.file}:{before.count(chr(10)) + 1}"


def mutants() -> tuple[Mutant, ...]:
    listed = [each for path in sorted(PLACE.glob("*.yaml")) for each in yaml.safe_load(path.read_text())]
    return tuple(Mutant(**{**each, "tests": tuple(each["tests"])}) for each in listed)
