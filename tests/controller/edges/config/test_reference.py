# SPDX-License-Identifier: Apache-2.0
"""docs/reference/gateway-yaml.md lists every accepted key and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controller.edges.config import classes, document, load, relaying, settings, uplinks
from controller.edges.config.document import Mapped, Node
from tests.controller import sites

TREE = Path(__file__).resolve().parents[4]
REFERENCE = (TREE / "docs/reference/gateway-yaml.md").read_text(encoding="utf-8")
EXAMPLE = REFERENCE.split("## Everything at once")[1].split("```")[1].removeprefix("yaml\n")
MODULES = (load, settings, classes, uplinks, relaying)
NAMED = re.compile(r"\b(uplinks|subnets|terminals|access_points|classes|sites)\.[^.\[]+")


def _documented() -> dict[str, set[str]]:
    """Return the keys in the first column of each place's table."""
    told = {}
    for section in REFERENCE.split("\n## ")[1:]:
        headline = section.splitlines()[0]
        keys = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
        if keys:
            told["" if headline == "The top" else headline.strip("`")] = keys
    return told


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Return the keys accepted at each place while the complete example is read."""
    known: dict[str, set[str]] = {}
    asked = Node.mapping

    def noted(place: Node, *allowed: str, required: tuple[str, ...] = ()) -> Mapped:
        where = re.sub(r"\[\d+\]", "[]", NAMED.sub(r"\1.NAME", place.where))
        known[where] = {*allowed, *required}
        return asked(place, *allowed, required=required)

    monkeypatch.setattr(document.Node, "mapping", noted)
    load.parse(EXAMPLE)
    return known


def test_reference_lists_exactly_the_accepted_keys(known: dict[str, set[str]]) -> None:
    assert _documented() == known


def test_complete_example_reaches_every_place_that_is_read(known: dict[str, set[str]]) -> None:
    sources = (Path(module.__file__ or "").read_text(encoding="utf-8") for module in MODULES)
    assert sum(source.count(".mapping(") for source in sources) == len(known)


def test_reference_lists_the_actual_defaults() -> None:
    nobody = sites.loaded(sites.document()).settings
    agents = settings.DEFAULT_AGENTS
    defaults = (nobody.openflow, nobody.api, nobody.state_file, agents.listen, agents.join, agents.directory)
    for default in defaults:
        assert re.search(rf"^\| `\w+` \|.*\| `{re.escape(str(default))}` \|", REFERENCE, re.MULTILINE), default
    assert nobody.agents is None
