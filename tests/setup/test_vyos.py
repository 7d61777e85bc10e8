# SPDX-License-Identifier: Apache-2.0
"""The router's commands exist in the pinned version of VyOS, whose commands are listed in vyos_paths.txt."""

from __future__ import annotations

import shlex
from itertools import chain
from pathlib import Path

import pytest

from setup.machines import vyos_paths
from tests.setup.place import TREE
from tests.setup.test_vagrantfile import machines, provisions

PATHS = (TREE / "tests/setup/vyos_paths.txt").read_text().splitlines()


def exists(command: str) -> bool:
    verb, *words = shlex.split(command)
    paths = (path.split() for path in PATHS if not path.startswith("#"))
    return verb == "set" and any(
        len(path) == len(words) and all(node in ("*", "?", word) for node, word in zip(path, words, strict=True))
        for path in paths
    )


def test_every_command_for_the_router_exists_in_vyos() -> None:
    lines = chain.from_iterable(script.splitlines() for script in provisions("router").values())
    commands = [line.strip() for line in lines if line.strip().startswith(("set ", "delete "))]
    assert len(commands) == 17  # three interfaces, two routes, two links
    assert [command for command in commands if not exists(command)] == []


@pytest.mark.parametrize(
    "command",
    [
        "set traffic-policy network-emulator gw-wifi packet-loss 5",  # VyOS 1.3
        "set interfaces ethernet $name traffic-policy out gw-wifi",  # VyOS 1.3
        "set qos policy network-emulator gw-wifi packet-loss 5",
        "set qos policy network-emulator gw-wifi loss",
        "set qos policy network-emulator loss 5",
        "set interfaces ethernet $name address 192.168.0.1/24 24",
        "set protocols static route 192.168.110.0/24 via 192.168.100.2",
    ],
)
def test_a_command_that_vyos_lacks_is_found(command: str) -> None:
    assert not exists(command)


def test_the_box_is_a_version_that_was_checked() -> None:
    version = machines()["router"]["box_version"].replace(".", "")
    assert any(line.startswith(f"#   VyOS 1.5-rolling-{version}, vyos-1x ") for line in PATHS)


def test_vyos_paths_expands_includes_and_marks_names(tmp_path: Path) -> None:
    root = tmp_path / "interface-definitions"
    (root / "include").mkdir(parents=True)
    (root / "include/loss.xml.i").write_text('<leafNode name="loss"/>\n')
    (root / "include/options.xml.i").write_text(
        '  #include <include/loss.xml.i>\n<leafNode name="off"><properties><valueless/></properties></leafNode>\n'
    )
    (root / "qos.xml.in").write_text(
        '<interfaceDefinition><node name="qos"><children><tagNode name="interface"><children>\n'
        "  #include <include/options.xml.i>\n"
        "</children></tagNode></children></node></interfaceDefinition>\n"
    )
    assert vyos_paths.version_commands(tmp_path) == {
        "qos interface *",
        "qos interface * loss ?",
        "qos interface * off",
    }
