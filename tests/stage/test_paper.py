# SPDX-License-Identifier: Apache-2.0
"""The paper's laboratory matches the paper and works with rendered files on its gateway."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import rendered

from controller.edges.config import load
from lab.processes.capture import captured
from lab.stage import ovs
from lab.stage.stage import Stage, raised
from lab.traffic.web import WebServer, download, web_server
from topologies.paper import BRIDGE, SERVER, PaperTopo

ETHERNET_BYTES, SNAPPED_BYTES = 14, 64
TABLE_2 = {
    "client": {"192.168.110.3/24": "08:00:27:86:0d:bc", "192.168.210.3/24": "08:00:27:ec:c0:04"},
    "router": {
        "192.168.100.1/24": "08:00:27:33:6d:a7",
        "192.168.200.1/24": "08:00:27:e1:9e:e3",
        "192.168.0.1/24": "08:00:27:d9:74:68",
    },
    "server": {"192.168.0.2/24": "08:00:27:67:2b:63"},
}
TABLE_2_OVS = {
    "gw-c1": "08:00:27:f9:49:62",
    "gw-c2": "08:00:27:2a:a0:c3",
    "gw-wifi": "08:00:27:81:6b:cf",
    "gw-lte": "08:00:27:e7:c6:f8",
}


@pytest.fixture(scope="module")
def net() -> Iterator[Stage]:
    with raised(PaperTopo(congestion_control="cubic")) as net:
        rendered.install("off")
        yield net


@pytest.fixture(scope="module")
def web(net: Stage) -> Iterator[WebServer]:
    with web_server(net.machine("server"), SERVER) as web:
        yield web


@pytest.fixture
def plain(net: Stage) -> Iterator[None]:
    """Start a test without bicast and without loss, and restore the shapes after it."""
    paths = [net.uplink(name) for name in ("wifi", "lte")]
    before = [(way, way.shape) for path in paths for way in (path.forward, path.backward)]
    for way, _ in before:
        way.set(loss_percent=0)
    yield
    for way, shape in before:
        way.set(loss_percent=shape.loss_percent, rate_bps=shape.rate_bps)


@pytest.mark.parametrize("name", TABLE_2)
def test_machines_have_the_addresses_of_table_2(net: Stage, name: str) -> None:
    told = json.loads(net.machine(name).run("ip", "-json", "-4", "address", "show", "up").stdout)
    links = {
        link["ifname"]: link["address"] for link in json.loads(net.machine(name).run("ip", "-json", "link").stdout)
    }
    found = {f"{own['local']}/{own['prefixlen']}": links[link["ifname"]] for link in told for own in link["addr_info"]}
    assert found == TABLE_2[name] | {"127.0.0.1/8": "00:00:00:00:00:00"}


def test_the_bridge_matches_the_gateway_file(net: Stage) -> None:
    site = load.load("topologies/paper.yaml").sites[0]
    shown = ovs.ofctl("show", site.bridge)
    ports = re.findall(r" (\d+)\((\S+)\): addr:(\S+)", shown)
    assert ports == [(str(number), name, mac) for number, (name, mac) in enumerate(TABLE_2_OVS.items(), 1)]
    assert f"dpid:{site.dpid:016x}" in shown
    written = {uplink.port: uplink.mac for uplink in site.uplinks}
    written |= {place.port: site.subnet(place.subnet).mac for place in site.terminals[0].addresses}
    assert written == TABLE_2_OVS
    assert {f"{place.address}/24": place.mac for place in site.terminals[0].addresses} == TABLE_2["client"]
    hops = {f"{hop.address}/24": hop.mac for uplink in site.uplinks for hop in uplink.next_hops}
    assert hops.items() < TABLE_2["router"].items()
    assert ovs.vsctl("get-fail-mode", BRIDGE) == "secure\n"
    assert ovs.vsctl("get", "Bridge", BRIDGE, "datapath_type") == "netdev\n"


def test_the_shapers_survive_open_vswitch(net: Stage) -> None:
    """OVS removes foreign queues at each reconfiguration, unless its settings forbid it."""
    ovs.vsctl("set", "Bridge", BRIDGE, "other_config:mac-aging-time=301")
    ovs.vsctl("add-port", BRIDGE, "passing", "--", "set", "Interface", "passing", "type=internal")
    ovs.vsctl("del-port", BRIDGE, "passing")
    for uplink in ("gw-wifi", "gw-lte"):
        assert "qdisc tbf" in net.gateways[0].run("tc", "qdisc", "show", "dev", uplink).stdout


def test_a_download_without_mptcp_is_recognised(net: Stage, web: WebServer, plain: None) -> None:
    router = net.machine("router")
    chain = "type filter hook forward priority 0;"
    strip = f"table ip strip {{ chain forward {{ {chain}\n tcp flags syn reset tcp option mptcp\n }}\n }}\n"
    router.run("nft", "-f", "-", given=strip)
    try:
        got = download(net.machine("client"), web.offer("stripped", 1000).url)
    finally:
        router.run("nft", "delete", "table", "ip", "strip")
    assert (got.size_bytes, got.mptcp) == (1000, False)


@pytest.mark.timed
def test_no_segment_overtakes_another(web: WebServer, net: Stage, plain: None, tmp_path: Path) -> None:
    """The link is unshaped: the threads of Open vSwitch and nginx then move between processors most often."""
    for way in (net.uplink("wifi").forward, net.uplink("wifi").backward):
        way.set(rate_bps=None)
    offered, file = web.offer("fast", 100_000_000), tmp_path / "came"
    data = f"tcp and src host {SERVER} and greater 200"
    with captured(net.machine("client"), file, data, SNAPPED_BYTES, "-i", "wifi", "-B", "65536"):
        download(net.machine("client"), offered.url)
    numbers = identifications(file)
    assert len(numbers) >= offered.size_bytes // 1500
    assert overtakings(numbers) == 0


def identifications(pcap: Path) -> list[int]:
    """Return the IP identifications of a capture. Linux increments them with each packet of a connection.

    Retransmissions count, too. The sender's own counters of reordering are less reliable: they mistake the loss of many
    packets and acknowledgements for reordering.
    """
    raw, at, found = pcap.read_bytes(), 24, []
    while at < len(raw):
        (kept,) = struct.unpack_from("=I", raw, at + 8)
        found.append(struct.unpack_from("!H", raw, at + 16 + ETHERNET_BYTES + 4)[0])
        at += 16 + kept
    return found


def overtakings(numbers: list[int]) -> int:
    """Count the numbers that follow a later one. Numbers wrap after 65535."""
    steps = ((later - earlier) % (1 << 16) for earlier, later in pairwise(numbers))
    return sum(step == 0 or step >= 1 << 15 for step in steps)
