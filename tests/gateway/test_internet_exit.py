# SPDX-License-Identifier: Apache-2.0
"""`./bicast bridge` makes this host the exit of a site, and takes all of it back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.__main__ import main
from controller.edges.config.load import load
from controller.model.config import ConfigError
from gateway import ovs
from tests.gateway.conftest import shell

Captured = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("ovs", "world")

SITES = """\
controller: {openflow: {listen: "127.0.0.1:6653"}, agents: {}}
sites:
  home:
    dpid: "00000000000000a1"
    uplinks:
      wifi: {kind: tunnel, port: t0, remote: 203.0.113.9,
             addresses: [10.99.1.2/30, "fd00:99::2/64"], next_hops: [{address: 10.99.1.1}, {address: "fd00:99::1"}]}
    subnets:
      inside: {gateways: [192.168.110.1/24, "fd00:110::1/64"], uplink: wifi}
    terminals:
      phone: {addresses: [{address: 192.168.110.3, port: c0}]}
  far:
    dpid: "00000000000000a2"
    bridge: br-far
    datapath: netdev
    mirrors: home
    uplinks:
      wifi: {kind: tunnel, port: f0, device: eth0,
             addresses: [10.99.1.1/30, "fd00:99::1/64"], next_hops: [{address: 10.99.1.2}, {address: "fd00:99::2"}]}
    subnets:
      beyond: {gateways: [10.98.0.1/30, "fd00:98::1/64"]}
    terminals:
      internet: {exit: host, addresses: [{address: 10.98.0.2, port: ve-far}, {address: "fd00:98::2", port: ve-far}]}
"""


@pytest.fixture
def world() -> None:
    """Make the interface to the internet. Later devices have IPv6, as on a rented machine."""
    shell("sysctl -qw net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.all.forwarding=0")
    shell("ip link add eth0 type veth peer name provider && ip link set provider up && ip link set eth0 up")
    shell("ip address add 203.0.113.9/24 dev eth0 && ip route add default via 203.0.113.1")


@pytest.fixture
def file(tmp_path: Path) -> str:
    place = tmp_path / "gateway.yaml"
    place.write_text(SITES)
    return str(place)


def bridge(capsys: Captured, *words: str) -> str:
    code = main(["bridge", *words, "--site", "far"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def state() -> Iterator[str]:
    """Yield all of the host that the exit may touch."""
    yield shell("ip -brief link | cut -d' ' -f1 | sort")
    yield shell("ip -4 route show table all; nft list ruleset")
    yield shell("ip -brief address show dev eth0")
    yield shell("sysctl -a -r '^net.ipv[46].conf.(all|eth0|lo).' 2>/dev/null")


def test_the_exit_is_made_and_a_second_run_changes_nothing(file: str, capsys: Captured) -> None:
    bridge(capsys, file)
    made = ovs.read().bridge("br-far")
    assert made is not None
    assert {port.name for port in made.ports if port.number} == {"ve-far"}
    assert "10.98.0.2/30" in shell("ip address show dev ve-far-h")
    assert "fd00:98::2/64" in shell("ip address show dev ve-far-h")
    assert "via 10.98.0.1 dev ve-far-h" in shell("ip route get 192.168.110.3")
    assert "via fd00:98::1 dev ve-far-h" in shell("ip -6 route get fd00:110::3")
    values = shell(
        "sysctl -n net.ipv4.conf.eth0.forwarding net.ipv4.conf.ve-far-h.forwarding net.ipv6.conf.all.forwarding"
    )
    assert values.split() == ["1", "1", "1"]
    assert shell("sysctl -n net.ipv4.conf.ve-far.forwarding") == "0\n", "the host must not forward beside the bridge"
    again = bridge(capsys, file)
    assert "nothing to change" in again, again


def test_the_environment_names_the_site_of_this_host(
    file: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BICAST_SITE", "far")
    assert main(["bridge", file]) == 0, capsys.readouterr().err
    assert [bridge.name for bridge in ovs.read().bridges] == ["br-far"]
    monkeypatch.setenv("BICAST_SITE", "attic")
    assert main(["bridge", file]) != 0
    assert "no site attic: expected one of home, far" in capsys.readouterr().err


def test_dry_run_prints_commands_that_make_the_exit(file: str, capsys: Captured) -> None:
    before = list(state())
    commands = bridge(capsys, file, "--dry-run")
    assert list(state()) == before
    shell(f"set -e\n{commands}")
    assert "nothing to change" in bridge(capsys, file)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("nft delete table inet bicast-exit", {"internet exit NAT"}),
        ("nft add rule inet bicast-exit entering accept", {"internet exit NAT"}),
        ("sysctl -qw net.ipv4.conf.eth0.forwarding=0", {"internet exit forwarding"}),
        ("ip route del 192.168.110.0/24", {"route 192.168.110.0/24"}),
        ("ip address del 10.98.0.2/30 dev ve-far-h", {"ve-far-h 10.98.0.2/30", "route 192.168.110.0/24"}),
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
    shell("sysctl -qw net.ipv4.conf.eth0.forwarding=0")
    bridge(capsys, file)  # what was before the first run is still known
    bridge(capsys, file, "--remove")
    assert list(state()) == before
    bridge(capsys, file, "--remove")
    assert list(state()) == before


@pytest.mark.parametrize(
    "port", ["a-name-too-long", "f0"], ids=["no room for the name of the host's end", "another port's"]
)
def test_a_port_that_cannot_be_made_is_refused(tmp_path: Path, port: str) -> None:
    place = tmp_path / "gateway.yaml"
    place.write_text(SITES.replace("ve-far", port))
    with pytest.raises(ConfigError, match="port"):
        load(str(place))
