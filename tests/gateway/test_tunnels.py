# SPDX-License-Identifier: Apache-2.0
"""`./bicast bridge` and `./bicast doctor` handle uplinks of kind tunnel on a real Open vSwitch."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cli.__main__ import main
from controller.edges.config.load import load
from gateway.bridge import failures
from gateway.checks import switch, tunnels
from gateway.doctor import Check
from gateway.finding import Finding, State
from gateway.scene import CheckContext
from lab.stage.ovs import PrivateOvs
from tests.gateway.conftest import shell
from tests.system.evidence import until

Captured = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("host")
GATEWAY = """\
controller:
  agents: {{directory: {place}/agents}}
sites:
  home:
    dpid: "00000000000000a1"
    bridge: br-home
    datapath: netdev
    uplinks:
      wifi:
        {{kind: tunnel, port: tn-w, {wifi}remote: 203.0.113.9,
          addresses: [10.99.1.2/30], next_hops: [{{address: 10.99.1.1}}]}}
      lte:
        {{kind: tunnel, port: tn-l, device: l0, remote: 203.0.113.9,
          addresses: [10.99.2.2/30], next_hops: [{{address: 10.99.2.1}}]}}
    subnets:
      inside: {{gateways: [192.168.110.1/24]}}
    terminals:
      phone: {{addresses: [{{address: 192.168.110.3, port: c0}}]}}
  far:
    dpid: "00000000000000a2"
    bridge: br-far
    mirrors: home
    uplinks:
      wifi: {{kind: tunnel, port: tf-w, addresses: [10.99.1.1/30], next_hops: [{{address: 10.99.1.2}}]}}
      lte: {{kind: tunnel, port: tf-l, addresses: [10.99.2.1/30], next_hops: [{{address: 10.99.2.2}}]}}
    subnets:
      servers: {{gateways: [192.168.0.1/24]}}
    terminals:
      server: {{addresses: [{{address: 192.168.0.2, port: s0}}]}}
"""
VNIS = {"tn-l": 0xA1 * 8 + 1, "tn-w": 0xA1 * 8 + 2}
SOON_S = 60.0
# finding: the command that causes it
DEFECTS = {
    "l0 underlay": "ip link set l0 down",
    "rp_filter w0": "sysctl -w net.ipv4.conf.w0.rp_filter=1",
}


@pytest.fixture
def file(tmp_path: Path) -> str:
    return written(tmp_path, "device: w0, ")


def written(tmp_path: Path, wifi: str) -> str:
    place = tmp_path / "gateway.yaml"
    place.write_text(GATEWAY.format(place=tmp_path, wifi=wifi))
    return str(place)


@pytest.fixture
def host(ports: None) -> None:
    """Make w0 and l0 uplinks like those that DHCP configures."""
    for number, name in enumerate(("w0", "l0"), 1):
        shell(f"ip address add 192.168.3{number}.2/24 dev {name} && ip link set {name} up")
        shell(f"ip route add default via 192.168.3{number}.1 dev {name} metric {number}00")
    shell("sysctl -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.w0.rp_filter=0 net.ipv4.conf.l0.rp_filter=0")


def prepare(file: str, capsys: Captured, *words: str) -> str:
    assert main(["bridge", file, "--site", "home", *words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def findings(file: str, *checks: Check) -> dict[str, Finding]:
    config = load(file)
    scene = CheckContext(file, config, (config.sites[0],))
    every = (tunnels.underlays, tunnels.apart, tunnels.routes, tunnels.rp_filter, tunnels.taken)
    return {finding.name: finding for check in checks or every for finding in check(scene)}


def make(name: str) -> None:
    """Make a tunnel's device like the agent does."""
    shell(f"ip link add {name} type vxlan id {VNIS[name]} dstport 890 dev l0 && ip link set {name} up")


@pytest.mark.usefixtures("ovs")
def test_bridge_awaits_the_tunnel_ports_of_the_agent(file: str, capsys: Captured) -> None:
    for _ in range(2):
        told = prepare(file, capsys)
        assert "awaited  tn-w: the site's agent creates it (bicast-agent run --role gateway)" in told
        assert "missing" not in told and "failed" not in told
    assert "nothing to change" in told
    assert findings(file, switch.interfaces)["tn-w tunnel"].state is State.WARNING
    make("tn-l")
    shell("ovs-vsctl --timeout=60 wait-until Interface tn-l ofport=2")
    told = prepare(file, capsys)
    assert "tn-l" not in re.sub(r"right .*", "", told)
    assert "nothing to change" in told
    assert set(findings(file, switch.interfaces)) == {"tn-w tunnel"}


def test_a_device_that_open_vswitch_notices_late_is_no_failure(file: str, capsys: Captured, ovs: PrivateOvs) -> None:
    prepare(file, capsys)
    vswitchd = int((ovs.directory / "ovs-vswitchd.pid").read_text())
    os.kill(vswitchd, signal.SIGSTOP)
    try:
        make("tn-l")
        with ThreadPoolExecutor(1) as pool:
            failed = pool.submit(failures, load(file).sites[:1])
            until(lambda: failed.done() or pgrep("ovs-vsctl .*wait-until Interface tn-l"), "it is awaited")
            os.kill(vswitchd, signal.SIGCONT)
            assert failed.result() == ()
    finally:
        os.kill(vswitchd, signal.SIGCONT)


def pgrep(pattern: str) -> bool:
    return subprocess.run(["pgrep", "-f", pattern], stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.usefixtures("ovs")
def test_a_recreated_port_is_reopened(file: str, capsys: Captured) -> None:
    """Open vSwitch alone keeps the socket of the deleted device."""
    prepare(file, capsys)
    shell("ip link del c0 && ip link add c0 type veth peer name c0-far && ip link set c0-far up && ip link set c0 up")
    shell("ovs-ofctl -O OpenFlow13 add-flow br-home in_port=3,actions=drop")
    assert "changed  c0 port: in br-home with number 3 (was: recreated after" in prepare(file, capsys)
    assert receives_from_c0()
    assert "nothing to change" in prepare(file, capsys)


def receives_from_c0() -> bool:
    """Return whether the bridge receives packets from the other end of c0."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as other:
        other.bind(("c0-far", 0))
        other.send(bytes(6 * [0xFF] + 6 * [2]) + b"\x88\xb5" + bytes(46))
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        (packets,) = re.findall(r"n_packets=(\d+)", shell("ovs-ofctl -O OpenFlow13 dump-flows br-home in_port=3"))
        if packets != "0":
            return True
        time.sleep(0.1)  # no event reports that a flow has counted
    return False


@pytest.mark.parametrize("name", DEFECTS)
@pytest.mark.usefixtures("ovs")
def test_each_suggested_fix_works(file: str, capsys: Captured, name: str) -> None:
    prepare(file, capsys)
    shell(DEFECTS[name])
    found = findings(file)[name]
    assert found.state is State.BAD
    assert found.mend is not None
    shell(found.mend)
    after = findings(file)
    assert name not in after or after[name].state is State.OK


def test_a_kernel_without_ipv6_is_bad(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(file, tunnels.kernel)["kernel IPv6"].state is State.OK
    monkeypatch.setattr(tunnels, "IPV6_SOCKET", tunnels.IPV6_SOCKET.replace("socket.AF_INET6", "-2"))
    assert findings(file, tunnels.kernel)["kernel IPv6"].state is State.BAD


def test_a_tunnel_device_needs_its_own_route(file: str) -> None:
    assert findings(file, tunnels.routes)["tn-l route"].state is State.OK
    shell("ip route del default dev l0")
    missed = findings(file, tunnels.routes)
    assert missed["tn-l route"].state is State.BAD
    assert "ip route add default via ITS-ROUTER dev l0" in missed["tn-l route"].expected
    assert missed["tn-w route"].state is State.OK


@pytest.mark.usefixtures("ovs")
def test_own_tunnels_are_not_reported_as_foreign(file: str, capsys: Captured) -> None:
    """The file has both ends of a tunnel, made by agents in two namespaces, and an agent may move devices elsewhere."""
    prepare(file, capsys)
    make("tn-w")
    shell("ip netns add other && ip -n other link set lo up")
    try:
        shell(f"ip -n other link add tf-w type vxlan id {VNIS['tn-w']} dstport 890")
        shell("ip -n other link set tf-w netns $$")
        assert set(bad(file)) == set()
        shell("ip link del tn-w && ip -n other link add tn-w type vxlan id 1 dstport 4788")
        shell("ip -n other link set tn-w netns $$ && ip link set w0 name away")
        assert set(bad(file)) == set()
        shell("ip link del tn-w")
        assert bad(file) == {"w0 underlay": "not there"}
    finally:
        shell("ip link del tf-w; ip netns del other")


def bad(file: str) -> dict[str, str]:
    return {name: each.found for name, each in findings(file).items() if each.state is not State.OK}


@pytest.mark.parametrize(("wifi", "by"), [("device: l0, ", "l0"), ("", "")])
def test_two_tunnels_over_one_device_are_a_warning(tmp_path: Path, wifi: str, by: str) -> None:
    place = Path(written(tmp_path, wifi))
    if not wifi:
        place.write_text(place.read_text().replace("device: l0, ", ""))
    found = findings(str(place))["home wifi and lte"]
    assert found.state is State.WARNING
    assert f"one device, {by or 'whichever device has the best route to 203.0.113.9'}" in found.found


def test_the_process_using_the_udp_port_is_named(file: str) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as other:
        other.bind(("", 51821))
        found = findings(file, tunnels.taken)["UDP port 51821"]
        assert found.state is State.BAD and f"process {os.getpid()}" in found.found
    assert findings(file, tunnels.taken)["UDP port 51821"].state is State.OK
