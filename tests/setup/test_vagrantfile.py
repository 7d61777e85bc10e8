# SPDX-License-Identifier: Apache-2.0
"""The Vagrantfile and topologies/paper.py both describe the paper's table 2: four machines, or four namespaces."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.setup.place import TREE, Done, run
from topologies.paper import BRIDGE, PaperTopo

MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")
ADDRESS = re.compile(r"192\.168\.\d+\.\d+(?:/\d+)?")
NAME_OF = {BRIDGE: "ovs"}  # the paper's name of the gateway


def ruby(script: str, *arguments: str | Path, **environment: str) -> Done:
    return run(["ruby", TREE / script, *arguments], {**os.environ, **environment})


def machines(**environment: str) -> dict[str, Any]:
    done = ruby("tests/setup/vagrantfile.rb", TREE / "Vagrantfile", **environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def provisions(machine: str, **environment: str) -> dict[str, str]:
    return {name: each["inline"] for name, each in machines(**environment)[machine]["provisions"].items()}


def cables() -> set[frozenset[tuple[str, str]]]:
    """Return the cables of table 2: a machine's name and a MAC at either end."""
    return {
        frozenset(
            (NAME_OF.get(node, node), options[key])
            for node, key in ((options["node1"], "addr1"), (options["node2"], "addr2"))
        )
        for _, _, options in PaperTopo().links(withInfo=True)
    }


def addresses(machine: str) -> set[str]:
    return {each for side in PaperTopo().nodeInfo(machine)["addresses"].values() for each in side}


@pytest.mark.skipif(shutil.which("vagrant") is None, reason="this distribution has no package vagrant")
def test_vagrant_accepts_the_vagrantfile(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "VAGRANT_DOTFILE_PATH": str(tmp_path / "dot")}
    done = run(["vagrant", "validate", "--ignore-provider"], environment, cwd=TREE)  # neither provider is here
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_four_machines_are_cabled_as_in_table_2() -> None:
    ends: dict[str, set[tuple[str, str]]] = {}
    for name, machine in machines().items():
        for network in machine["networks"]:
            mac = ":".join(re.findall("..", network["mac"].lower()))
            assert network["virtualbox__intnet"] == network["libvirt__network_name"]
            ends.setdefault(network["virtualbox__intnet"], set()).add((name, mac))
    agents = ends.pop("bicast-control")
    assert {name for name, _ in agents} == {"ovs", "client", "server"}, "the controller and the agents"
    assert {frozenset(each) for each in ends.values()} == cables()


def test_the_host_has_no_address_in_the_lab() -> None:
    for machine in machines().values():
        for network in machine["networks"]:
            assert network["auto_config"] is False
            assert "ip" not in network


@pytest.mark.parametrize("machine", ["client", "server"])
def test_client_and_server_get_table_2_addresses_by_mac(machine: str) -> None:
    script = provisions(machine)["network"]
    own = {mac for cable in cables() for name, mac in cable if name == machine}
    assert set(MAC.findall(script)) == own
    assert addresses(machine) <= set(ADDRESS.findall(script))


def test_gateway_ports_get_the_configured_names() -> None:
    script = provisions("ovs")["network"]
    named = dict(reversed(pair.split(",")) for pair in re.findall(rf"{MAC.pattern},[\w-]+", script))
    assert named == {
        options[f"intfName{end}"]: options[f"addr{end}"]
        for _, _, options in PaperTopo().links(withInfo=True)
        for end in (1, 2)
        if options[f"node{end}"] == BRIDGE
    }


def test_the_router_gets_table_2_addresses_and_routes() -> None:
    commands = provisions("router")["network"]
    assert set(re.findall(r"address (192\.\S+)", commands)) == addresses("router")
    assert set(MAC.findall(commands)) == {mac for cable in cables() for name, mac in cable if name == "router"}
    routes = set(re.findall(r"static route (\S+) next-hop (\S+)", commands))
    assert routes == {(route.to, route.via) for route in PaperTopo().nodeInfo("router")["routes"]}


def test_rates_and_losses_come_from_the_environment() -> None:
    wish = {"WIFI_UP_LOSS": "10", "WIFI_DOWN_LOSS": "5", "LTE_MBPS": "20"}
    assert "link.sh gw-wifi 100 10 " in provisions("ovs", **wish)["links"]
    assert "link.sh gw-lte 20 1" in provisions("ovs", **wish)["links"]
    assert "network-emulator gw-wifi loss 5\n" in provisions("router", **wish)["links"]
    assert "network-emulator gw-lte bandwidth 20mbit\n" in provisions("router", **wish)["links"]


@pytest.mark.parametrize("loss", ["five", "-1", "1; reboot"])
def test_a_loss_must_be_a_number(loss: str) -> None:
    done = ruby("setup/machines/vyos.rb", WIFI_DOWN_LOSS=loss)
    assert done.returncode != 0
    assert f"WIFI_DOWN_LOSS={loss}: expected a number" in done.stderr
