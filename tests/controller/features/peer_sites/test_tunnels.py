# SPDX-License-Identifier: Apache-2.0
"""Uplinks of kind tunnel: their configuration, the orders to each agent, and reactions to its reports."""

from __future__ import annotations

from typing import Any

import pytest

from controller.agents.order_slot import AGAIN_AFTER_S
from controller.edges.config.checks import remarks
from controller.model.config import ConfigError
from controller.model.uplink import UplinkKind
from controller.protocol.enrolment import TUNNEL_KEYS, Credential
from controller.protocol.orders import TunnelOrder, Tunnels
from controller.protocol.reports import Role
from tests.controller import sites
from tests.controller.features.peer_sites.test_manager import PeerSitePair
from tests.controller.features.peer_sites.test_peer_program import document

REMOTE = "203.0.113.9"


def tunnelled() -> dict[str, Any]:
    written = document()
    written["controller"] = {"agents": {}}
    for uplink in written["sites"]["home"]["uplinks"].values():
        uplink |= {"kind": "tunnel", "remote": REMOTE}
    written["sites"]["home"]["uplinks"]["wifi"]["device"] = "wlan0"
    for uplink in written["sites"]["far"]["uplinks"].values():
        uplink |= {"kind": "tunnel"}
    return written


NOBODY_JOINED = (b"", b"")


def order(remote: str | None, device: str | None = None, ends: tuple[bytes, bytes] = NOBODY_JOINED) -> Tunnels:
    return Tunnels(
        tunnels=(
            TunnelOrder("wifi", "wifi0", 10, 51821, device, remote, keys=ends),
            TunnelOrder("lte", "lte0", 9, 51820, None, remote, keys=ends),
        ),
        fitted_ports=("c1", "c2", "lan0") if remote else ("c1",),
    )


def test_agent_is_told_which_ports_lead_lans_to_the_tunnels() -> None:
    written = tunnelled()
    written["sites"]["home"]["subnets"]["guests"] = {
        "gateways": ["192.168.8.1/24"],
        "device": "enp3s0",
        "port": "ve-home",
    }
    orders = PeerSitePair(written).agent("home").tunnels
    assert orders is not None
    assert orders.lan_ports == ("ve-home",)


# Configuration


def test_both_ends_derive_the_same_tunnel_number_and_port_in_any_file_order() -> None:
    written = tunnelled()
    written["sites"]["home"]["uplinks"]["wifi"]["udp_port"] = "8472"
    home, far = sites.loaded(written).sites
    for name in ("wifi", "lte"):
        here, there = home.uplink(name).tunnel, far.uplink(name).tunnel
        assert here is not None and there is not None
        assert (here.vni, here.udp_port) == (there.vni, there.udp_port)
        assert here.udp_port == (8472 if name == "wifi" else 51820)
        assert str(here.remote) == REMOTE and there.remote is None
        assert home.uplink(name).kind is UplinkKind.TUNNEL
    assert home.uplink("wifi").tunnel != home.uplink("lte").tunnel
    written["sites"]["home"]["uplinks"] = dict(reversed(written["sites"]["home"]["uplinks"].items()))
    after = sites.loaded(written).sites[0]
    assert {each.name: each.tunnel for each in home.uplinks} == {each.name: each.tunnel for each in after.uplinks}


HOME_WIFI, FAR_WIFI = (("sites", site, "uplinks", "wifi") for site in ("home", "far"))
WRONG: list[tuple[str, tuple[str, ...], Any, str, str]] = [
    ("no other end", ("sites", "far"), None, "home.uplinks.wifi.kind", "`mirrors`"),
    ("no agents", ("controller",), {}, "home.uplinks.wifi.kind", "controller.agents"),
    ("ethernet there", (*FAR_WIFI, "kind"), "ethernet", "home.uplinks.wifi.kind", "at far it is ethernet"),
    ("nobody starts", (*HOME_WIFI, "remote"), None, "wifi.remote: found nothing", "one end must know the other"),
    ("both start", (*FAR_WIFI, "remote"), "198.51.100.7", "uplinks.wifi.remote", "only one end may have it"),
    ("a remote of a group", (*HOME_WIFI, "remote"), "224.0.0.1", "uplinks.wifi.remote", "a routable host"),
    ("a remote inside", (*HOME_WIFI, "remote"), "192.168.110.77", "uplinks.wifi.remote", "192.168.110.0/24"),
    ("a bridge's port to leave by", (*HOME_WIFI, "device"), "c1", "wifi.device: found 'c1'", "the host's addresses"),
    ("its own device to leave by", (*HOME_WIFI, "device"), "wifi0", "uplinks.wifi.port", "a name that differs"),
    ("a port beside no remote", (*FAR_WIFI, "udp_port"), "4789", "uplinks.wifi.udp_port", "beside `remote`"),
    ("one port for two", (*HOME_WIFI, "udp_port"), "51820", "uplinks.lte.udp_port", "the tunnel wifi has this one"),
    ("UDP port 0", (*HOME_WIFI, "udp_port"), "0", "uplinks.wifi.udp_port", "from 1 to 65534"),
    ("no kind", (*HOME_WIFI, "kind"), None, "uplinks.wifi.device: found 'wlan0'", "expected `kind: tunnel` beside it"),
]


@pytest.mark.parametrize(("at", "value", "where", "expected"), [each[1:] for each in WRONG], ids=[w[0] for w in WRONG])
def test_invalid_tunnel_is_refused_with_its_place(at: tuple[str, ...], value: Any, where: str, expected: str) -> None:
    written = tunnelled()
    *way, last = at
    inner = written
    for step in way:
        inner = inner[step]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    with pytest.raises(ConfigError) as error:
        sites.loaded(written)
    assert where in str(error.value) and expected in str(error.value)


def test_sites_with_colliding_tunnel_numbers_are_refused() -> None:
    written = tunnelled()
    for name, mirrors, dpid in (("home2", None, "0000000000100001"), ("far2", "home2", "0000000000000007")):
        site = tunnelled()["sites"]["far" if mirrors else "home"]
        site |= {"dpid": dpid, "mirrors": mirrors, "bridge": f"br-{name}"}
        site["terminals"] = {f"{name}-{label}": each for label, each in site["terminals"].items()}
        if mirrors is None:
            del site["mirrors"]
        written["sites"][name] = site
    with pytest.raises(ConfigError, match="last five digits differ from those of home"):
        sites.loaded(written)
    written["sites"]["home2"]["dpid"] = "0000000000000009"
    assert len(sites.loaded(written).sites) == 4


# Orders


def credential(number: int, role: Role = Role.GATEWAY) -> Credential:
    return Credential(role, bytes([number]) * 32)


def test_new_certificate_changes_the_key_at_both_ends() -> None:
    ends = PeerSitePair(tunnelled())
    home, far = ends.agent("home"), ends.agent("far")

    def vouch(**vouched: Credential) -> tuple[bytes, ...]:
        ends.carry(ends.core.vouch(vouched, ends.now))
        ends.second()
        of_far, of_home = far.tunnels.tunnels[0].keys, home.tunnels.tunnels[0].keys
        assert of_far == of_home == far.tunnels.tunnels[1].keys
        return of_far

    assert vouch(home=credential(1), far=credential(2)) == (b"\2" * 32, b"\1" * 32)
    told = len(home.of_tunnels)
    assert vouch(home=credential(1), far=credential(2), phone=credential(9)) == (b"\2" * 32, b"\1" * 32)
    assert len(home.of_tunnels) == told, "the certificate of another agent has no effect"
    assert vouch(home=credential(3), far=credential(2)) == (b"\2" * 32, b"\3" * 32), "home has joined again"
    assert vouch(home=credential(3)) == (b"", b"\3" * 32), "far was revoked"
    assert vouch(home=credential(3), far=credential(2, Role.RELAY)) == (b"", b"\3" * 32), "its role is not gateway"


def test_a_far_site_that_was_away_learns_of_a_revocation() -> None:
    ends = PeerSitePair(tunnelled())
    far = ends.agent("far")
    ends.carry(ends.core.vouch({"home": credential(1), "far": credential(2)}, ends.now))
    ends.second()
    ends.leave(far)
    ends.carry(ends.core.vouch({"far": credential(2)}, ends.now))
    ends.second()
    assert far.tunnels.tunnels[0].keys == (b"\2" * 32, b"\1" * 32), "nobody has told it"
    ends.join(far)
    ends.second()
    assert far.tunnels.tunnels[0].keys == (b"\2" * 32, b"")


def test_each_end_gets_the_other_ends_public_key_of_its_tunnel() -> None:
    ends = PeerSitePair(tunnelled())
    home, far = ends.agent("home"), ends.agent("far")
    keys = {name: tuple(f"{name} {number}".encode() for number in range(TUNNEL_KEYS)) for name in ("home", "far")}
    ends.carry(ends.core.vouch({name: Credential(Role.GATEWAY, b"", keys[name]) for name in keys}, ends.now))
    ends.second()
    for agent, other in ((home, "far"), (far, "home")):
        assert {each.name: each.peer_key for each in agent.tunnels.tunnels} == {
            "lte": f"{other} 0".encode(),
            "wifi": f"{other} 1".encode(),
        }
    ends.carry(ends.core.vouch({"home": Credential(Role.RELAY, b"", keys["home"])}, ends.now))
    ends.second()
    assert {each.peer_key for each in (*home.tunnels.tunnels, *far.tunnels.tunnels)} == {b""}, "no gateway is there"


def test_a_tunnel_is_in_clear_only_if_both_ends_say_so() -> None:
    written = tunnelled()
    written["sites"]["home"]["uplinks"]["wifi"]["encryption"] = "none"
    with pytest.raises(ConfigError, match="the same at both ends: far differs"):
        sites.loaded(written)
    written["sites"]["far"]["uplinks"]["wifi"]["encryption"] = "none"
    ends = PeerSitePair(written)
    for agent in (ends.agent("home"), ends.agent("far")):
        assert {each.name: each.clear for each in agent.tunnels.tunnels} == {"wifi": True, "lte": False}
    assert not ends.tunnel("home", "wifi").encrypted and ends.tunnel("home", "lte").encrypted
    (remark,) = (each for each in remarks(sites.loaded(written)) if "home.uplinks" in each)
    assert "sites.home.uplinks.wifi: `encryption: none`: anyone on its path can read" in remark


def test_each_agent_gets_its_tunnels_once() -> None:
    ends = PeerSitePair(tunnelled())
    home, far = ends.agent("home"), ends.agent("far")
    assert home.tunnels == order(REMOTE, "wlan0")
    assert far.tunnels == order(None)
    for _ in range(20):
        ends.second()
    assert len(home.of_tunnels) == len(far.of_tunnels) == 1


def test_failed_or_impossible_tunnel_order_is_shown_and_only_a_failed_one_repeated() -> None:
    ends = PeerSitePair(tunnelled())
    far = ends.agent("far", no_tunnels="port 4789 is taken by another program")
    home = ends.agent("home", no_vxlan="there is no nft on this host")
    assert ends.tunnel("far", "wifi").reason == "port 4789 is taken by another program"
    assert ends.tunnel("home", "wifi").reason == "there is no nft on this host"
    for _ in range(int(AGAIN_AFTER_S) + 1):
        ends.second()
    assert len(far.of_tunnels) == 2 and not home.of_tunnels


def test_former_tunnel_end_is_ordered_to_have_none() -> None:
    ends = PeerSitePair(tunnelled())
    home = ends.agent("home")
    assert home.tunnels is not None
    ends.carry(ends.core.reconfigure(sites.loaded(document()), ends.now))
    ends.second()
    assert home.tunnels is None


def test_agent_without_tunnels_is_ordered_once_to_clean_up() -> None:
    ends = PeerSitePair()
    home = ends.agent("home")
    ends.settle()
    assert home.of_tunnels == [Tunnels()]


def test_silent_tunnel_gets_no_copies_and_is_left() -> None:
    ends = PeerSitePair(tunnelled())
    home, far = ends.agent("home"), ends.agent("far")
    ends.settle()
    assert ends.leaves_home() == ends.leaves_far() == {4, 5}
    assert ends.active()["client"] == "wifi"
    home.unheard["wifi"] = "nobody was heard for 3.1 s"
    ends.second()
    ends.second()
    assert ends.leaves_home() == ends.leaves_far() == {5}
    assert ends.active()["client"] == "lte"
    assert ends.tunnel("home", "wifi").reason == "nobody was heard for 3.1 s"
    assert ends.tunnel("home", "lte").up and ends.tunnel("far", "wifi").up
    assert far.tunnels == order(None), "the other end keeps its tunnels"
    del home.unheard["wifi"]
    ends.settle()
    assert ends.leaves_home() == ends.leaves_far() == {4, 5}


def test_invented_tunnels_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    ends = PeerSitePair(tunnelled())
    home = ends.agent("home")
    caplog.clear()
    for number in range(50):
        home.invented = {f"fancy{number}": "nobody is heard"}
        ends.second()
    assert not [line for line in caplog.messages if "fancy" in line]
    assert not [each for each in ends.core.peer_sites.tunnels._down if "fancy" in each[1]]
