# SPDX-License-Identifier: Apache-2.0
"""The host's nft base chains, read from text: nft's JSON (1.0.6) omits a chain's devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.host import run

BASE = re.compile(r"\t\ttype \w+ hook (?P<hook>\w+)(?: devices? = (?P<set>\{[^}]*\})| device (?P<one>\S+))? priority")
DROP = re.compile(r"\bdrop$")


@dataclass(frozen=True, slots=True)
class Chain:
    table: str  # family, table and name as in nft
    hook: str
    devices: tuple[str, ...]
    drops: bool  # by its policy or own rule


def chains() -> tuple[Chain, ...]:
    return tuple(_read(run(("nft", "list", "ruleset")).out))


def _read(ruleset: str) -> Iterator[Chain]:
    """nft indents chains by one tab, rules by two."""
    table, lines = "", iter(ruleset.splitlines())
    for line in lines:
        if line.startswith("table "):
            table = line.removeprefix("table ").removesuffix(" {")
        elif line.startswith("\tchain "):
            name = line.removeprefix("\tchain ").removesuffix(" {")
            inside = list(iter(lambda: next(lines), "\t}"))
            base = BASE.match(inside[0]) if inside else None
            if base:
                devices = re.findall(r'[^\s,"{}]+', base["set"] or base["one"] or "")
                drops = "policy drop;" in inside[0] or any(DROP.search(_without_comment(rule)) for rule in inside[1:])
                yield Chain(f"{table} {name}", base["hook"], tuple(sorted(devices)), drops)


def _without_comment(rule: str) -> str:
    return re.sub(r'\s+comment ".*"$', "", rule)
