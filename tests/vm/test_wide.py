# SPDX-License-Identifier: Apache-2.0
"""Three uplinks, four terminals and two families on the kernel's datapath."""

from __future__ import annotations

import json

from lab.stage.command import run
from lab.stage.nodes import Machine
from tests.system.conftest import GatewayLab
from tests.system.evidence import arrivals, pings, reaches
from tests.system.test_wide import *  # noqa: F403
from topologies.wide import BRIDGE, SERVER6, both

REACHABLE_MS = 1000  # after a confirmation; by default a terminal asks again only after half a minute


def test_doctor_finds_the_kernel_datapath(wide: GatewayLab) -> None:
    told = run("./bicast", "doctor", "--json", str(wide.controller.file), check=False).stdout
    findings = {finding["name"]: finding for finding in json.loads(told)["findings"]}
    assert findings["kernel openvswitch"]["state"] == "ok"
    assert findings["kernel netem"]["found"] == "yes"
    assert not [finding for finding in findings.values() if finding["state"] == "bad"]


def test_packets_are_forwarded_by_the_kernel(wide: GatewayLab) -> None:
    assert reaches(wide.net.machine("laptop"), both(110, 3)[1], SERVER6)
    assert run("ovs-vsctl", "get", "Bridge", BRIDGE, "datapath_type").stdout.strip() == "system"
    assert "system@ovs-system" in run("ovs-appctl", "dpctl/show").stdout


def test_a_second_bridge_command_changes_nothing(wide: GatewayLab) -> None:
    told = json.loads(run("./bicast", "bridge", "--json", str(wide.controller.file)).stdout)
    assert told["changed"] == 0


def test_links_drop_packets_with_netem(wide: GatewayLab) -> None:
    """tests/stage/test_links.py measures the loss, on this kernel too."""
    router, towards_gateway = wide.net.machine("router"), wide.net.uplink("wifi").backward
    try:
        towards_gateway.set(loss_percent=100)
        assert "netem" in router.run("tc", "qdisc", "show", "dev", "wifi").stdout
        assert not reaches(router, both(100, 1)[0], both(100, 2)[0])
    finally:
        towards_gateway.set(loss_percent=0)
    assert reaches(router, both(100, 1)[0], both(100, 2)[0])


def test_neighbours_find_the_gateway_without_a_controller(wide: GatewayLab) -> None:
    """No flow can advertise on this datapath. The gateway's own solicitations are enough for its neighbours."""
    laptop, source = wide.net.machine("laptop"), both(110, 3)
    wide.controller.kill()
    try:
        _found_and_kept(wide, laptop, source)
    finally:
        wide.controller.start()
        wide.controller.await_steady()
    (gateway,) = wide.controller.client.get("status")["gateways"]
    assert gateway["last_changes"] == 0, "what was read back is what had been sent"


def _found_and_kept(wide: GatewayLab, laptop: Machine, source: list[str]) -> None:
    neighbours = "net.ipv6.neigh.wifi"
    laptop.run(
        "sysctl", "--quiet", "--write", f"{neighbours}.base_reachable_time_ms={REACHABLE_MS}",
        f"{neighbours}.delay_first_probe_time=1", f"{neighbours}.retrans_time_ms=200",
    )  # fmt: skip
    for address, own in zip(source, both(110, 2), strict=True):
        laptop.run("ip", "neigh", "flush", "dev", "wifi")
        laptop.run("ip", "-6", "neigh", "flush", "dev", "wifi")
        assert ", 0% packet loss" in pings(laptop, address, own)
    # Datagrams without an answer: replies to ping would confirm the gateway.
    send = (
        "import socket,time\n"
        "s=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM)\n"
        f"s.bind(('{source[1]}',0))\n"
        f"for n in range(200): s.sendto(b'x',('{SERVER6}',9)); time.sleep(0.05)\n"
    )
    with arrivals(wide.net.machine("server"), "lan") as server:
        laptop.run("python3", "-c", send)
        assert server.since()["lan", "udp"] == 200
