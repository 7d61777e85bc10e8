# SPDX-License-Identifier: Apache-2.0
"""The controller connects, installs, changes and restarts on os-ken and on Ryu alike."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lab.processes.controller import OPENFLOW, TREE, controlled
from lab.stage.command import run
from lab.stage.stage import raised
from tests.system.conftest import PAPER, GatewayLab
from tests.system.evidence import assert_reaches, gateway, reaches, snooping, until
from tests.system.evidence import program as program_on
from topologies.paper import BRIDGE, SERVER, PaperTopo

RYU = TREE / ".venv-ryu" / "bin"
ON_RYU = sys.version_info[:2] == (3, 11)  # setup/ryu.sh says why
RYUS_PYTHON = str(RYU / "python")
PYTHONS = [sys.executable, *([pytest.param(RYUS_PYTHON, marks=pytest.mark.slow, id="ryu")] if ON_RYU else [])]
PROGRAMS = ["os_ken", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ryu", "ryu-manager") if ON_RYU)]


def program_of(name: str, place: Path) -> list[str]:
    file = str(place / PAPER.name)
    if name == "ryu-manager":
        configuration = place / "ryu.conf"
        configuration.write_text(f"[bicast]\nfile = {file}\n")
        words = ("--config-file", str(configuration), "controller/edges/openflow/ryu_manager.py")
        return [str(RYU / "ryu-manager"), *words]
    return [RYUS_PYTHON if name == "ryu" else sys.executable, "-m", "controller", file]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_framework_connects_installs_changes_and_restarts(name: str, tmp_path: Path) -> None:
    program = program_of(name, tmp_path)
    if name != "ryu-manager":
        told = run(program[0], "-c", "from controller.edges.openflow import framework; print(framework.NAME)").stdout
        assert told == f"{name}\n"
    with (
        controlled(PAPER, directory=tmp_path, program=program) as controller,
        raised(PaperTopo(shaped=False), controller=OPENFLOW) as net,
    ):
        controller.await_steady()
        GatewayLab(net, controller).returns_soon()
        terminal, client = net.machine("client"), controller.client
        assert_reaches(terminal, "192.168.110.3", SERVER)
        with snooping(BRIDGE) as snoop:
            assert client.set_mode("client", "single")["messages"] == 2
            assert client.set_active("client", "lte")["messages"] == 4
            snoop.settled()
            assert snoop.modifications() == {"OFPT_GROUP_MOD": 6}
            heard = snoop.number()
            run("ip", "link", "set", "gw-lte", "down")
            snoop.wait("OFPT_PORT_STATUS", "LINK_DOWN", since=heard)
            until(lambda: reaches(terminal, "192.168.110.3", SERVER), "the switch itself takes the other uplink")
            run("ip", "link", "set", "gw-lte", "up")
            until(lambda: client.get("status")["gateways"][0]["uplinks"][1]["up"], "the port is back")
            before, heard = program_on(BRIDGE), snoop.number()
            controller.kill()
            controller.start()
            controller.await_steady()
            snoop.settled()
            assert snoop.modifications(heard) == {}
        assert program_on(BRIDGE) == before
        assert gateway(client.get("status"))["changes_sent"] == 0
        assert client.get("terminals", "client")["active_uplink"] == "lte"
        assert controller.stop() == 0
