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
from tests.system.evidence import assert_reaches, gateway, program, reaches, snooping, until
from topologies.paper import BRIDGE, SERVER, PaperTopo

PYTHONS = {"os_ken": sys.executable, "ryu": str(TREE / ".venv-ryu" / "bin" / "python")}
RYU = [pytest.param("ryu", marks=pytest.mark.slow)] if sys.version_info[:2] == (3, 11) else []  # setup/ryu.sh says why
FRAMEWORKS = ["os_ken", *RYU]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_connects_installs_changes_and_restarts(framework: str, tmp_path: Path) -> None:
    python = PYTHONS[framework]
    told = run(python, "-c", "from controller.edges.openflow import framework; print(framework.NAME)").stdout
    assert told == f"{framework}\n"
    with (
        controlled(PAPER, directory=tmp_path, python=python) as controller,
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
            before, heard = program(BRIDGE), snoop.number()
            controller.kill()
            controller.start()
            controller.await_steady()
            snoop.settled()
            assert snoop.modifications(heard) == {}
        assert program(BRIDGE) == before
        assert gateway(client.get("status"))["changes_sent"] == 0
        assert client.get("terminals", "client")["active_uplink"] == "lte"
        assert controller.stop() == 0
