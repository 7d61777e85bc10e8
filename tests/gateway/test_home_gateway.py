# SPDX-License-Identifier: Apache-2.0
"""The examples in docs/how-to/home.md work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.__main__ import main
from controller.edges.config.load import load
from gateway.ovs import read
from lab.stage.ovs import PrivateOvs
from tests.gateway.conftest import ROOT, shell

PAGE = (ROOT / "docs/how-to/home.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def example(tmp_path: Path) -> str:
    place = tmp_path / "gateway.yaml"
    place.write_text(blocks("yaml")[0])
    return str(place)


def test_the_remote_part_fits_into_the_example(example: str, tmp_path: Path) -> None:
    whole, remote = blocks("yaml")
    place = tmp_path / "remote.yaml"
    place.write_text(whole.replace("controller:\n", remote, 1))
    settings = load(str(place)).settings
    assert settings.tls is not None
    assert str(settings.openflow) == "192.0.2.10:6653"


def test_the_example_makes_a_bridge_and_removes_it(example: str, ovs: PrivateOvs) -> None:
    """The bridge is in userspace here, because not every kernel has the datapath."""
    Path(example).write_text(Path(example).read_text().replace("datapath: system", "datapath: netdev"))
    for name in ("enp1s0", "enp2s0", "enp3s0", "enp4s0"):
        shell(f"ip link add {name} type veth peer name {name}-far")
    assert main(["bridge", example]) == 0
    made = read().bridge("br-home")
    assert made is not None
    assert {port.name: port.number for port in made.ports} == {"enp1s0": 1, "enp2s0": 2, "enp3s0": 3}
    assert main(["bridge", example, "--remove"]) == 0
    assert read().bridges == ()
