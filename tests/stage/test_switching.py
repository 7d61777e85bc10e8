"""The topology for switching has the paths that it says, and downloads over it arrive whole."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import handwritten
import pytest
from test_subflows import until_two_subflows

from controller.edges.config import load
from lab.links.shape import Shape
from lab.stage import ovs
from lab.stage.nodes import Machine
from lab.stage.stage import raised
from lab.traffic.web import download, web_server
from topologies.paper import BRIDGE, SERVER
from topologies.switching import SwitchingTopo

ROOT = Path(__file__).parents[2]
PATHS = {"wifi": ("192.168.110.3", 20.0), "lte": ("192.168.210.3", 50.0)}


def least_rtt_ms(client: Machine, source: str) -> float:
    told = client.run("ping", "-c", "10", "-i", "0.05", "-W", "2", "-q", "-I", source, SERVER).stdout
    found = re.search(r"rtt min\S+ = ([\d.]+)/", told)
    assert found, told
    return float(found[1])


@pytest.mark.timed
@pytest.mark.parametrize("backup", [True, False])
def test_paths_are_as_long_and_lte_as_idle_as_they_say(backup: bool) -> None:
    topo = SwitchingTopo(lte_backup=backup, congestion_control="cubic")
    with raised(topo) as net, web_server(net.machine("server"), SERVER) as web:
        handwritten.install(bicast=False)
        client = net.machine("client")
        for source, rtt_ms in PATHS.values():
            assert rtt_ms <= least_rtt_ms(client, source) < rtt_ms + 8
        offered = web.offer("whole", 6_000_000)
        for name in PATHS:
            net.uplink(name).lateness()
        before = {name: net.uplink(name).counters()[1].out_bytes for name in PATHS}
        got = download(client, offered.url)
        assert (got.size_bytes, got.sha256, got.mptcp) == (offered.size_bytes, offered.sha256, True)
        carried = {name: net.uplink(name).counters()[1].out_bytes - before[name] for name in PATHS}
        if backup:
            assert got.size_bytes * 8 / got.seconds < 20_000_000
            assert carried["lte"] < 100_000 < carried["wifi"]
        else:
            assert min(carried.values()) > 1_000_000


@pytest.mark.parametrize("backup", [True, False])
def test_a_download_arrives_whole_and_lte_is_backup_or_not(backup: bool) -> None:
    topo = SwitchingTopo(lte_backup=backup, congestion_control="cubic")
    with raised(topo) as net, web_server(net.machine("server"), SERVER) as web:
        handwritten.install(bicast=False)
        client, server = net.machine("client"), net.machine("server")
        for name, (_, rtt_ms) in PATHS.items():
            assert net.uplink(name).forward.shape == Shape(20_000_000, delay_ms=rtt_ms / 2)
        offered = web.offer("whole", 6_000_000)
        got = download(client, offered.url)
        assert (got.size_bytes, got.sha256, got.mptcp) == (offered.size_bytes, offered.sha256, True)
        url = web.offer("long", 50_000_000).url
        with client.popen("mptcpize", "run", "curl", "-s", "--limit-rate", "500K", "-o", "/dev/null", url) as curl:
            found = until_two_subflows(server)
            curl.terminate()
        assert {peer: flagged for peer, _, flagged in found} == {"192.168.110.3": False, "192.168.210.3": backup}


def test_a_port_that_is_down_is_seen_by_open_vswitch_and_carries_nothing() -> None:
    with raised(SwitchingTopo()) as net:
        handwritten.install(bicast=False)
        client, gateway = net.machine("client"), net.gateways[0]
        ping = ["ping", "-c", "2", "-i", "0.1", "-I", "192.168.110.3", SERVER]
        assert "2 received" in client.run(*ping, "-W", "60").stdout
        gateway.run("ip", "link", "set", "dev", "gw-wifi", "down")
        ovs.vsctl("wait-until", "Interface", "gw-wifi", "admin_state=down")
        assert "0 received" in client.run(*ping, "-W", "1", check=False).stdout
        gateway.run("ip", "link", "set", "dev", "gw-wifi", "up")
        ovs.vsctl("wait-until", "Interface", "gw-wifi", "admin_state=up", "link_state=up")
        assert "2 received" in client.run(*ping, "-W", "60").stdout


def test_the_gateway_s_file_is_the_paper_s() -> None:
    site = load.load("topologies/paper.yaml").sites[0]
    with raised(SwitchingTopo()):
        ports = re.findall(r" \d+\((\S+)\): addr:(\S+)", ovs.ofctl("show", BRIDGE))
    written = {uplink.port: uplink.mac for uplink in site.uplinks}
    written |= {place.port: site.subnet(place.subnet).mac for place in site.terminals[0].addresses}
    assert dict(ports) == written


def test_mn_raises_it(outside: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("router ip -brief address\nsh ovs-vsctl list-ports br-home\n")
    words = ["mn", "--custom", str(ROOT / "topologies/switching.py"), "--topo", "switching,wifi_rtt_ms=4,lte_backup=0"]
    words += ["--test", "none", "--post", str(script)]
    done = subprocess.run(words, env=outside, cwd="/", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    told = (done.stdout + done.stderr).replace("\r", "")
    assert "192.168.200.1/24" in told
    assert "gw-c1\ngw-c2\ngw-lte\ngw-wifi\n" in told
