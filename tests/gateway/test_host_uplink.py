# SPDX-License-Identifier: Apache-2.0
"""`./bicast bridge` leads an uplink of kind host on by the host's own interface, and takes all of it back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.__main__ import main
from gateway import ovs
from tests.gateway.conftest import shell

Captured = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("ovs", "world")

SITE = """\
controller: {openflow: {listen: "127.0.0.1:6653"}}
sites:
  home:
    dpid: "00000000000000a1"
    datapath: netdev
    uplinks:
      fibre: {kind: host, device: eth0, port: up-fibre, addresses: [10.97.1.1/30], next_hops: [{address: 10.97.1.2}]}
      lte: {kind: host, device: wwan0, port: up-lte, addresses: [10.97.2.1/30, "fd00:97::1/64"],
            next_hops: [{address: 10.97.2.2}, {address: "fd00:97::2"}]}
    subnets:
      lan: {gateways: [192.168.8.1/24], device: lan0, port: ve-home}
"""


@pytest.fixture
def world() -> None:
    shell("sysctl -qw net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.all.forwarding=0")
    for device, address in (("eth0", "192.0.2.9/24"), ("wwan0", "198.51.100.9/24"), ("lan0", "")):
        shell(f"ip link add {device} type veth peer name {device}p && ip link set {device}p up")
        shell(f"ip link set {device} up")
        if address:
            shell(f"ip address add {address} dev {device}")
    shell("ip route add default via 192.0.2.1 metric 100 && ip route add default via 198.51.100.1 metric 200")


@pytest.fixture
def file(tmp_path: Path) -> str:
    place = tmp_path / "gateway.yaml"
    place.write_text(SITE)
    return str(place)


def bridge(capsys: Captured, *words: str) -> str:
    code = main(["bridge", *words])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def state() -> Iterator[str]:
    """Yield all of the host that an uplink may touch."""
    yield shell("ip -brief link | cut -d' ' -f1 | sort")
    yield shell("ip -4 route show table all; nft list ruleset; ip rule; ip -6 rule")
    yield shell("ip -brief address show dev eth0; ip -brief address show dev wwan0")
    yield shell("sysctl -a -r '^net.ipv[46].conf.(all|eth0|wwan0|lan0|lo).' 2>/dev/null")


def way(end: str) -> str:
    return shell(f"ip route get 203.0.113.77 from 192.168.8.57 iif {end}")


def test_each_uplink_leads_on_by_its_own_device(file: str, capsys: Captured) -> None:
    bridge(capsys, file)
    made = ovs.read().bridge("br-home")
    assert made is not None
    assert {port.name for port in made.ports if port.number} == {"up-fibre", "up-lte", "ve-home"}
    assert "via 192.0.2.1 dev eth0" in way("up-fibre-h")
    assert "via 198.51.100.1 dev wwan0" in way("up-lte-h")
    assert "via 10.97.2.1 dev up-lte-h" in shell("ip route get 192.168.8.57 from 203.0.113.77 iif wwan0 mark 0x6271")
    assert "dev up-lte-h" in shell("ip route get 10.97.2.1 from 203.0.113.77 iif wwan0 mark 0x6271")
    assert "fd00:97::2/64" in shell("ip address show dev up-lte-h")
    assert "nothing to change" in bridge(capsys, file)


def test_a_device_without_a_route_does_not_leave_by_another_one(file: str, capsys: Captured) -> None:
    shell("ip route delete default via 198.51.100.1")
    assert "no default route of wwan0 yet" in bridge(capsys, file)
    with pytest.raises(AssertionError, match=r"Invalid argument|unreachable|No route"):
        way("up-lte-h")
    shell("ip route add default dev wwan0 metric 200")  # as of a modem
    assert "changed  lte IPv4: default dev wwan0" in bridge(capsys, file)
    assert "dev wwan0" in way("up-lte-h")
    assert "nothing to change" in bridge(capsys, file)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("nft delete table inet bicast-up-lte", {"wwan0 NAT"}),
        ("sysctl -qw net.ipv4.conf.wwan0.rp_filter=1", {"wwan0 forwarding"}),
        ("ip rule del priority 8640 fwmark 0x6271", {"lte IPv4"}),
        ("ip route flush table 8661", {"lte IPv4"}),
        ("ip route replace default via 198.51.100.2 metric 200", {"lte IPv4"}),
        ("ip address del 10.97.1.2/30 dev up-fibre-h", {"up-fibre-h 10.97.1.2/30", "fibre IPv4"}),
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
    bridge(capsys, file, "--remove")
    assert list(state()) == before
    bridge(capsys, file, "--remove")
    assert list(state()) == before
