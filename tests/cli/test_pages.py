"""The pages for people lead where they say, and what they have typed is there."""

from __future__ import annotations

import re
import shlex
import string
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.__main__ import VERBS
from controller.edges.config.load import load
from lab.processes.controller import TREE

PAGES = (TREE / "README.md", *sorted((TREE / "docs").glob("*.md")))
TUNNELS = (TREE / "docs" / "tunnels.md").read_text(encoding="utf-8")


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> Iterator[str]:
    """As GitHub makes them of headings: a second one of the same words has a number."""
    seen: Counter[str] = Counter()
    for heading in re.findall(r"^#+ +(.*?) *#*$", prose(page), re.MULTILINE):
        words = re.sub(r"\[([^]]*)]\([^)]*\)", r"\1", heading).lower()
        name = "".join(c for c in words.replace(" ", "-") if c not in string.punctuation or c in "-_")
        yield f"{name}-{seen[name]}" if seen[name] else name
        seen[name] += 1


def links(page: Path) -> list[str]:
    return [link for link in re.findall(r"]\(([^)\s]+)\)", prose(page)) if not re.match(r"[a-z]+:", link)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_link_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link} is no heading of {target.name}"


def blocks(language: str, before: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TUNNELS.split(before)[0], re.DOTALL)


def test_the_file_for_two_sites_that_are_joined_by_tunnels_is_whole(tmp_path: Path) -> None:
    place = tmp_path / "gateway.yaml"
    (text,) = blocks("yaml", "## The internet beyond")
    place.write_text(text)
    config = load(str(place))
    assert config.settings.tls is not None
    assert all(uplink.tunnel for site in config.sites for uplink in site.uplinks)
    assert all(config.other_end(site) for site in config.sites)


def test_what_is_typed_for_tunnels_is_there() -> None:
    lines = [line for block in blocks("sh", "\n## What holds") for line in block.splitlines()]
    verbs = {shlex.split(line, comments=True)[1] for line in lines if line.startswith("./bicast ")}
    assert {"check", "bridge", "run", "enroll"} <= verbs <= VERBS.keys()
    for file in re.findall(r"(?<![/\w])deploy/[\w.-]+\w", TUNNELS):
        assert (TREE / file).exists(), file
