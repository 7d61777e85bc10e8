# SPDX-License-Identifier: Apache-2.0
"""Each command in the documentation exists with its options, and each gateway.yaml in it is valid."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from controller.edges.config.load import load
from tests.docs.pages import PAGES, TREE, blocks, named, text

# `build/bicast-agent join CONTROLLER:8656 --name far`: the program, its words, and the rest of the command.
COMMAND = re.compile(
    r"(?:^(?:sudo )?|\./|build/)(bicast|bicast-agent|make)((?: [a-z][\w-]*)+)([^\n`|;&#]*)", re.MULTILINE
)
OPTION = re.compile(r"(?<!\S)(--?[a-z][\w-]*)")
PROGRAMS = {"bicast": TREE / "bicast", "bicast-agent": TREE / "build/bicast-agent"}


def commands(page: Path) -> Iterator[tuple[str, tuple[str, ...], list[str]]]:
    """Yield program, words and options of each command in a block of shell lines or in inline code."""
    shell = "\n".join(blocks(page, "sh")).replace("\\\n", " ")
    indented = "\n".join(re.findall(r"^    (.*)$", text(page), re.MULTILINE))
    inline = "\n".join(re.findall(r"`([^`\n]+)`", text(page)))
    for program, words, rest in COMMAND.findall(f"{shell}\n{indented}\n{inline}"):
        yield program, tuple(words.split()), OPTION.findall(rest)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_each_command_exists_with_its_options(page: Path) -> None:
    makefile = (TREE / "Makefile").read_text()
    for program, words, options in commands(page):
        if program == "make":
            assert re.search(rf"^{words[0]}:", makefile, re.MULTILINE), f"make {words[0]}"
            continue
        told = help_of(program, words[:1])
        assert told, f"{program} {words[0]}"
        if options:
            told += help_of(program, words[:2])
            missing = [each for each in options if not re.search(rf"(?<![\w-]){each}(?![\w-])", told)]
            assert not missing, f"{program} {' '.join(words)} has no option {', '.join(missing)}"


@cache
def help_of(program: str, words: tuple[str, ...]) -> str:
    """Return what `program words --help` prints, or nothing if it does not exist."""
    done = subprocess.run([PROGRAMS[program], *words, "--help"], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


@pytest.mark.parametrize("page", [each for each in PAGES if blocks(each, "yaml")], ids=named)
def test_each_whole_gateway_yaml_is_valid(page: Path, tmp_path: Path) -> None:
    """A block with `sites:` at its margin is a whole file. Others are parts of one."""
    for number, block in enumerate(blocks(page, "yaml")):
        if re.search(r"^sites:", block, re.MULTILINE):
            file = tmp_path / f"{number}.yaml"
            file.write_text(block)
            assert load(str(file)).sites


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_each_file_named_in_a_command_exists(page: Path) -> None:
    for name in re.findall(r"(?<![\w/.])((?:deploy|topologies|setup|ovs-flows)/[\w/.-]*\w)", page.read_text()):
        assert (TREE / name).exists(), name
