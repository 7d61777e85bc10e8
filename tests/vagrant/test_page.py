# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/how-to/vagrant.md, typed as they stand there and in its order."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.setup.place import TREE, program
from tests.vagrant.machines import Machine, booted

PAGE = TREE / "docs" / "how-to" / "vagrant.md"
BOX = Path(os.environ["BICAST_BOX"])
TYPED_WITHIN_S = 1800
FILE, WHOLE_BYTES, SHORT_BYTES = "/var/www/html/500MB", 500_000_000, 5_000_000
Typed = Callable[[str], str]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Machine]]:
    with booted(BOX, tmp_path_factory.mktemp("machines")) as there:
        yield there


@pytest.fixture
def typed(machines: dict[str, Machine], tmp_path: Path) -> Typed:
    """Return what types the commands of a section into a shell whose `vagrant` reaches the machines."""
    ports = json.dumps({name: each.port for name, each in machines.items()})
    program(tmp_path, "vagrant", f"exec {sys.executable} -m tests.vagrant.vagrant {BOX} '{ports}' \"$@\"")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def into_a_shell(section: str) -> str:
        done = subprocess.run(
            ["bash", "-exc", commands(section)], env=environment, cwd=TREE, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TYPED_WITHIN_S, check=False,
        )  # fmt: skip
        print(done.stdout)
        assert done.returncode == 0, done.stdout
        return done.stdout

    return into_a_shell


def commands(section: str) -> str:
    """Return what a section of the page tells people to type."""
    text = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return str(block)


def test_agents_are_enrolled_and_connect(typed: Typed, machines: dict[str, Machine]) -> None:
    assert "steady" in typed("Enrol the agents")
    agents = json.loads(machines["ovs"].run("sudo /opt/bicast/bicast agents --json"))
    assert {each["name"]: each["standing"] for each in agents} == {"client": "connected", "server": "connected"}


@pytest.fixture
def short_file(machines: dict[str, Machine]) -> Iterator[None]:
    """Cut the server's file down to what emulated machines carry within minutes, and give it its length back."""
    machines["server"].run(f"sudo truncate --size {SHORT_BYTES} {FILE}")
    yield
    machines["server"].run(f"sudo truncate --size {WHOLE_BYTES} {FILE}")


@pytest.mark.usefixtures("short_file")
def test_one_transfer_without_copies_and_one_with_them(typed: Typed, machines: dict[str, Machine]) -> None:
    assert len(re.findall("^real", typed("Transfer"), re.MULTILINE)) == 2
    assert "loss 10%" in machines["ovs"].run("sudo tc qdisc show dev gw-wifi")
    assert "loss 5%" in machines["router"].run("sudo tc qdisc show")


def test_a_live_connection_is_switched(typed: Typed) -> None:
    told = typed("Switch a live connection")
    assert int(re.findall(r"client reached (\d+) connection", told)[0]) > 0


def test_each_packet_reaches_the_router_twice(typed: Typed) -> None:
    interfaces = defaultdict(set)
    for interface, source, number in re.findall(r" (\S+) +In +IP (\S+) > .* ack (\d+)", typed("Capture")):
        interfaces[source, number].add(interface)
    assert any(len(each) == 2 for each in interfaces.values()), interfaces
