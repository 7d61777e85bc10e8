# SPDX-License-Identifier: Apache-2.0
"""`./bicast bridge` leads a LAN of this host to the bridge, and takes all of it back."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.__main__ import main
from gateway import ovs
from lab.stage.command import run
from tests.gateway.conftest import shell
from tests.system.evidence import until

Captured = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("ovs", "world")

SITES = """\
controller: {openflow: {listen: "127.0.0.1:6653"}, agents: {}}
sites:
  home:
    dpid: "00000000000000a1"
    datapath: netdev
    uplinks:
      fibre: {kind: tunnel, port: t0, device: eth0, remote: 203.0.113.9,
              addresses: [10.99.1.2/30, "fd00:99::2/64"], next_hops: [{address: 10.99.1.1}, {address: "fd00:99::1"}]}
    subnets:
      lan: {gateways: [192.168.8.1/24, "fd00:8::1/64"], device: lan0, port: ve-home}
  far:
    dpid: "00000000000000a2"
    mirrors: home
    uplinks:
      fibre: {kind: tunnel, port: f0,
              addresses: [10.99.1.1/30, "fd00:99::1/64"], next_hops: [{address: 10.99.1.2}, {address: "fd00:99::2"}]}
    subnets: {}
"""


@pytest.fixture
def world() -> None:
    """Make an uplink, and an interface for devices. Later devices have IPv6."""
    shell("sysctl -qw net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.all.forwarding=0")
    shell("ip link add eth0 type veth peer name provider && ip link set provider up && ip link set eth0 up")
    shell("ip address add 192.0.2.9/24 dev eth0 && ip route add default via 192.0.2.1")
    shell("ip link add lan0 type veth peer name device && ip link set device up && ip link set lan0 up")


@pytest.fixture
def file(tmp_path: Path) -> str:
    place = tmp_path / "gateway.yaml"
    place.write_text(SITES)
    return str(place)


def bridge(capsys: Captured, *words: str) -> str:
    code = main(["bridge", *words, "--site", "home"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def state() -> Iterator[str]:
    """Yield all of the host that a LAN may touch."""
    yield shell("ip -brief link | cut -d' ' -f1 | sort")
    yield shell("ip -4 route show table all; nft list ruleset; ip rule; ip -6 rule; ip neighbour show nud permanent")
    yield shell("ip -brief address show dev eth0; ip -brief address show dev lan0")
    yield shell("sysctl -a -r '^net.ipv[46].conf.(all|eth0|lan0|lo).' 2>/dev/null")


def test_the_lan_leads_to_the_bridge_and_a_second_run_changes_nothing(file: str, capsys: Captured) -> None:
    bridge(capsys, file)
    made = ovs.read().bridge("br-home")
    assert made is not None
    assert {port.name for port in made.ports if port.number} == {"ve-home"}
    assert "192.168.8.1/24" in shell("ip address show dev lan0")
    shell("ip link set ve-home up")  # as the agent does while a tunnel is up
    until(lambda: "dev ve-home-h" in shell("ip route get 198.51.100.7 from 192.168.8.1"), "the kernel has seen it")
    for family, source, target in ((4, "192.168.8.57", "198.51.100.7"), (6, "fd00:8::57", "2001:db8::7")):
        way = shell(f"ip -{family} route get {target} from {source} iif lan0")
        assert "dev ve-home-h" in way, way
    assert "dev ve-home-h" in shell("ip route get 198.51.100.7 from 192.168.8.1")
    assert "dev lan0" in shell("ip route get 192.168.8.57 from 192.168.8.1")
    assert "dev eth0" in shell("ip route get 198.51.100.7"), "the host's own packets leave as before"
    assert "nothing to change" in bridge(capsys, file)


def test_without_a_tunnel_new_connections_leave_by_the_hosts_own_nat(file: str, capsys: Captured) -> None:
    bridge(capsys, file)
    asked = "ip route get 198.51.100.7 from 192.168.8.57 iif lan0"
    assert "dev eth0" in shell(asked)
    shell("ip link set ve-home up")
    until(lambda: "dev ve-home-h" in shell(asked), "the kernel has seen that the port is up")
    assert "dev eth0" in shell(f"{asked} mark 0x6269"), "a connection stays on its way"
    shell("ip link set ve-home down")
    until(lambda: "dev eth0" in shell(asked), "the kernel has seen that the port is down")
    assert "nothing to change" in bridge(capsys, file)


def test_dry_run_prints_commands_that_make_the_way(file: str, capsys: Captured) -> None:
    before = list(state())
    commands = bridge(capsys, file, "--dry-run")
    assert list(state()) == before
    shell(f"set -e\n{commands}")
    assert "nothing to change" in bridge(capsys, file)


def test_the_host_forwards_nothing_that_it_does_not_translate(file: str, capsys: Captured) -> None:
    def step_by_step(*words: str) -> list[bool]:
        forwarded = []
        for command in bridge(capsys, file, *words, "--dry-run").splitlines():
            shell(command)
            forwarded.append(shell("sysctl -n net.ipv4.conf.lan0.forwarding").strip() == "1")
            assert not forwarded[-1] or "masquerade" in shell("nft list ruleset"), command
        return forwarded

    assert step_by_step()[-1]
    assert not step_by_step("--remove")[-1]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("nft delete table inet bicast-ve-home", {"lan0 NAT"}),
        ("sysctl -qw net.ipv4.conf.lan0.forwarding=0", {"lan0 forwarding"}),
        ("ip rule del priority 8650", {"way of 192.168.8.0/24"}),
        ("ip rule del priority 8652", {"way of 192.168.8.0/24"}),
        ("ip route flush table 8651", {"way of 192.168.8.0/24"}),
        ("ip -6 neighbour del fe80::62 dev ve-home-h", {"way of fd00:8::/64"}),
        ("ip address del 192.168.8.1/24 dev lan0", {"lan0 addresses"}),
        ("ip link set lan0 down && ip address add fd00:8::1/64 dev lan0", {"lan0 link"}),
    ],
)
def test_what_changed_since_is_put_right(file: str, capsys: Captured, line: str, names: set[str]) -> None:
    bridge(capsys, file)
    shell(line)
    changed = {found[1] for found in re.finditer("^changed  (.*?): ", bridge(capsys, file), re.MULTILINE)}
    assert changed == names
    assert "nothing to change" in bridge(capsys, file)


def test_remove_leaves_the_host_as_it_was(file: str, capsys: Captured) -> None:
    before = list(state())
    bridge(capsys, file)
    shell("sysctl -qw net.ipv4.conf.lan0.forwarding=0")
    bridge(capsys, file)  # what was before the first run is still known
    bridge(capsys, file, "--remove")
    assert list(state()) == before
    bridge(capsys, file, "--remove")
    assert list(state()) == before


def test_remove_keeps_an_address_that_the_host_had(file: str, capsys: Captured) -> None:
    shell("ip address add 192.168.8.1/24 dev lan0")
    bridge(capsys, file)
    bridge(capsys, file, "--remove")
    assert "192.168.8.1/24" in shell("ip address show dev lan0")


def test_absent_lan_interface_is_awaited(file: str, capsys: Captured) -> None:
    shell("ip link delete lan0")
    bridge(capsys, file)
    shell("ip link add lan0 type veth peer name device")
    assert "changed  lan0 addresses" in bridge(capsys, file)
    assert "nothing to change" in bridge(capsys, file)


ECHO = """
import socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(self.client_address[0].encode() + b" " + line)
            self.wfile.flush()
with socketserver.ThreadingTCPServer(("198.51.100.7", 7), Echo) as server:
    print("listens", flush=True)
    server.serve_forever()
"""
TALK = """
import socket, sys
with socket.create_connection(("198.51.100.7", 7)) as it, it.makefile("rw") as lines:
    for line in sys.stdin:
        lines.write(line)
        lines.flush()
        print(lines.readline(), end="", flush=True)
"""


@contextmanager
def program(netns: str, text: str) -> Iterator[subprocess.Popen[str]]:
    words = ["ip", "netns", "exec", netns, sys.executable, "-c", text]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str], line: str) -> str:
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return process.stdout.readline()


@pytest.fixture
def peers(world: None) -> Iterator[None]:
    """Put the device and the provider into namespaces of their own."""
    for name, addresses in (("device", "192.168.8.57/24"), ("provider", "192.0.2.1/24")):
        shell(f"ip netns add {name} && ip link set {name} netns {name}")
        shell(f"ip -n {name} address add {addresses} dev {name} && ip -n {name} link set {name} up")
    shell("ip -n device route add default via 192.168.8.1")
    shell("ip -n provider link set lo up && ip -n provider address add 198.51.100.7/32 dev lo")
    yield
    for name in ("device", "provider"):
        shell(f"ip netns delete {name}")


@pytest.mark.usefixtures("peers")
def test_a_connection_of_the_fallback_goes_on_when_a_tunnel_is_up(file: str, capsys: Captured) -> None:
    bridge(capsys, file)
    with program("provider", ECHO) as server:
        assert server.stdout
        assert server.stdout.readline() == "listens\n"
        with program("device", TALK) as before:
            assert said(before, "hello") == "192.0.2.9 hello\n", "the provider sees the host's address"
            shell("ip link set ve-home up")
            asked = "ip route get 198.51.100.7 from 192.168.8.57 iif lan0"
            until(lambda: "dev ve-home-h" in shell(asked), "new connections go to the bridge")
            assert said(before, "still") == "192.0.2.9 still\n"
        asks = ("ip", "netns", "exec", "device", sys.executable, "-c", TALK)
        counted = "nft add rule inet bicast-ve-home entering iifname lan0 oifname ve-home-h tcp flags syn counter drop"
        shell(counted)
        assert run("timeout", "1", *asks, check=False).returncode == 124, "a new connection waits for the bridge"
        assert re.search("counter packets [1-9]", shell("nft list table inet bicast-ve-home"))
