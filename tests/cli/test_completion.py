# SPDX-License-Identifier: Apache-2.0
"""A shell completes the command: verbs and choices without a controller, names with it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
SEPARATOR = "\013"


def completed(line: str) -> set[str]:
    """Return what a shell of argcomplete's reads on file descriptor 8."""
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_SHELL": "bash", "IFS": SEPARATOR}
    asked |= {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"}
    words = ["bash", "-c", "./bicast 8>&1 9>&2 >/dev/null"]
    done = subprocess.run(
        words, cwd=TREE, env=os.environ | asked, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return {word.strip() for word in done.stdout.split(SEPARATOR)} - {""}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("bicast s", {"status", "switch"}),
        ("bicast mode phone ", {"bicast", "single", "off", "auto", "file"}),
        ("bicast relay dr", {"drain"}),
        ("bicast status --js", {"--json"}),
        ("bicast check READ", {"README.md"}),
        ("bicast why ", set()),
    ],
)
def test_completion_needs_a_controller_only_for_names(
    monkeypatch: pytest.MonkeyPatch, line: str, words: set[str]
) -> None:
    monkeypatch.setenv("BICAST_API", "127.0.0.1:1")
    assert completed(line) == words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("bicast mode ", {"all", "client", "tablet"}),
        ("bicast why cl", {"client"}),
        ("bicast switch client ", {"auto", "wifi", "lte"}),
        ("bicast budget reset home/l", {"home/lte"}),
    ],
)
def test_completion_offers_names_of_the_controller(api: str, line: str, words: set[str]) -> None:
    assert completed(line) == words
