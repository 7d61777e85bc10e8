# SPDX-License-Identifier: Apache-2.0
"""The exit of a site serves the terminals of the peer site, and only them."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest

from controller.model.config import ConfigError, Mode, Site
from controller.model.in_force import Known
from controller.program.compile import compile
from tests.controller import sites
from tests.controller.features.peer_sites import test_peer_program
from tests.controller.sites import PHONE_MAC, PORTS
from tests.fakes.packet import TERMINAL_MAC, Packet, arp_request, echo, solicit, tcp, udp
from tests.fakes.pipeline import SentPacket
from tests.fakes.switch import FakeSwitch

WIFI, LTE, SERVERS, EXIT = (PORTS[name].number for name in ("wifi0", "lte0", "c1", "lan0"))
GATEWAY_MAC = "02:00:00:00:0f:09"
EXIT_MAC = "02:00:00:00:0f:0a"
AT_HOME = {4: "192.168.110.3", 6: "fd00:110::3"}
STRANGERS = {4: "203.0.113.77", 6: "2001:db8:77::1"}
EXITS = {4: "10.98.0.2", 6: "fd00:98::2"}
GATEWAYS = {4: "10.98.0.1", 6: "fd00:98::1"}
SERVER = {4: "192.168.0.2", 6: "fd00::2"}
BESIDE = {4: "192.168.0.9", 6: "fd00::9"}  # an unused address in the servers' subnet
families = pytest.mark.parametrize("version", [4, 6])


def document() -> dict[str, Any]:
    """Return a document with a terminal behind the exit's port as well."""
    written = test_peer_program.document()
    far = written["sites"]["far"]
    far["subnets"]["beyond"] = {"gateways": [f"{GATEWAYS[4]}/29", f"{GATEWAYS[6]}/64"], "mac": GATEWAY_MAC}
    far["terminals"]["beyond"] = {
        "exit": "true",
        "addresses": [{"address": address, "port": "lan0"} for address in EXITS.values()],
    }
    far["terminals"]["beside"] = {"addresses": [{"address": "10.98.0.3", "port": "lan0"}]}
    return written


def far() -> Site:
    return sites.loaded(document()).sites[1]


def known(modes: dict[str, Mode] | None = None, active: dict[str, str] | None = None) -> Known:
    return sites.known(far(), modes, active)


def switch_with(now: Known) -> FakeSwitch:
    return FakeSwitch(PORTS).load(compile(far(), now))


def switch_of(written: dict[str, Any]) -> FakeSwitch:
    end = sites.loaded(written).sites[1]
    return FakeSwitch(PORTS).load(compile(end, sites.known(end)))


@pytest.fixture
def switch() -> FakeSwitch:
    return switch_with(known())


def by_wifi(source: str, destination: str, **more: Any) -> Packet:
    return tcp(source, destination, eth_dst=PORTS["wifi0"].mac, **more)


def from_beyond(source: str, destination: str, make: Any = tcp, **more: Any) -> Packet:
    packet: Packet = make(source, destination, eth_dst=GATEWAY_MAC, **more)
    return packet


def ports(sent: tuple[SentPacket, ...]) -> set[int]:
    assert len({each.port for each in sent}) == len(sent), "a port sends one copy at most"
    return {each.port for each in sent}


# Out


@families
@pytest.mark.parametrize("uplink", ["wifi0", "lte0"])
def test_peer_terminal_reaches_strangers_through_the_exit(switch: FakeSwitch, version: int, uplink: str) -> None:
    packet = tcp(AT_HOME[version], STRANGERS[version], eth_dst=PORTS[uplink].mac)
    (sent,) = switch.send(packet, PORTS[uplink].number).sent
    assert sent == SentPacket(EXIT, replace(packet, eth_src=GATEWAY_MAC, eth_dst=PHONE_MAC, nw_ttl=63))


@pytest.mark.parametrize(
    "destination",
    [
        *(BESIDE.values()),
        *(GATEWAYS.values()),
        *("192.168.100.1", "192.168.100.2", "192.168.100.77", "192.168.200.255", "fd00:200::2"),  # uplink subnets
        *("192.168.110.2", "192.168.110.9", "10.1.0.7", "10.1.0.255", "fd00:110::9", "fd00:1::1"),  # at home
        *("224.0.0.5", "255.255.255.255", "169.254.169.254", "127.0.0.1", "ff0e::1", "fe80::7"),
    ],
)
def test_known_destination_is_not_sent_to_the_exit(switch: FakeSwitch, destination: str) -> None:
    source = AT_HOME[ip_address(destination).version]
    assert not switch.send(by_wifi(source, destination), WIFI).sent


@pytest.mark.parametrize("site", ["far", "home"])
def test_subnet_that_one_site_claims_is_not_sent_to_the_exit(site: str) -> None:
    written = document()
    wider = [f"{own.partition('/')[0]}/23" if "." in own else own for own in uplink_of(written, site)["addresses"]]
    uplink_of(written, site)["addresses"] = wider
    switch = switch_of(written)
    assert not switch.send(by_wifi(AT_HOME[4], "192.168.101.7"), WIFI).sent
    assert not switch.send(from_beyond("192.168.101.7", AT_HOME[4]), EXIT).sent


def uplink_of(written: dict[str, Any], site: str) -> dict[str, Any]:
    found: dict[str, Any] = written["sites"][site]["uplinks"]["wifi"]
    return found


@pytest.mark.parametrize("source", ["192.168.110.9", "198.51.100.5", "10.98.0.2", "fd00:110::9", "2001:db8::5"])
def test_only_peer_terminals_use_the_exit(switch: FakeSwitch, source: str) -> None:
    stranger = STRANGERS[ip_address(source).version]
    assert not switch.send(by_wifi(source, stranger), WIFI).sent


@families
def test_local_terminal_traffic_to_strangers_is_unchanged(switch: FakeSwitch, version: int) -> None:
    packet = tcp(SERVER[version], STRANGERS[version], eth_dst=test_peer_program.GATEWAY_MAC)
    without = test_peer_program.ready().send(packet, SERVERS).sent
    assert switch.send(packet, SERVERS).sent == without and ports(without) == {WIFI, LTE}
    assert ports(switch.send(from_beyond(EXITS[version], STRANGERS[version]), EXIT).sent) == {WIFI, LTE}


# Back


@families
def test_answer_of_a_stranger_is_copied_like_local_traffic(switch: FakeSwitch, version: int) -> None:
    packet = from_beyond(STRANGERS[version], AT_HOME[version])
    server = tcp(SERVER[version], AT_HOME[version], eth_dst=test_peer_program.GATEWAY_MAC)
    (told, local) = (switch.send(*each).sent for each in ((packet, EXIT), (server, SERVERS)))
    assert ports(told) == {WIFI, LTE} and {each.packet.nw_ttl for each in told} == {63}
    assert [(each.port, each.packet.eth_src, each.packet.eth_dst) for each in told] == [
        (each.port, each.packet.eth_src, each.packet.eth_dst) for each in local
    ]


@families
def test_answer_follows_mode_and_uplinks_of_its_terminal(version: int) -> None:
    def leaves(now: Known, make: Any = tcp) -> set[int]:
        return ports(switch_with(now).send(from_beyond(STRANGERS[version], AT_HOME[version], make), EXIT).sent)

    assert leaves(known(), udp) == {WIFI}
    assert leaves(known({"client": Mode.SINGLE}, {"client": "lte"})) == {LTE}
    assert leaves(known({"client": Mode.OFF}, {"client": "lte"})) == {WIFI}
    assert leaves(replace(known(), screened=frozenset({"wifi"}))) == {LTE}


def test_answer_follows_the_classes_of_the_peer_site() -> None:
    written = document()
    home = written["sites"]["home"]
    home["classes"] = {"calls": {"protocols": ["udp"], "ports": ["5060"], "addresses": ["203.0.113.0/24"]}}
    home["terminals"]["client"]["modes"] = {"calls": "bicast"}
    switch = switch_of(written)
    call = from_beyond(STRANGERS[4], AT_HOME[4], udp, udp_src=5060)
    assert ports(switch.send(call, EXIT).sent) == {WIFI, LTE}
    assert ports(switch.send(replace(call, udp_src=5061), EXIT).sent) == {WIFI}
    assert ports(switch.send(by_wifi(AT_HOME[4], STRANGERS[4]), WIFI).sent) == {EXIT}


@families
def test_stranger_reaches_only_peer_terminals(switch: FakeSwitch, version: int) -> None:
    others = (SERVER, BESIDE, EXITS, {4: "10.98.0.3", 6: "fd00:98::3"}, {4: "198.51.100.9", 6: "2001:db8::9"})
    uplinks = {4: "192.168.100.2", 6: "fd00:100::2"}, {4: "192.168.110.9", 6: "fd00:110::9"}
    for each in (*others, *uplinks):
        assert not switch.send(from_beyond(STRANGERS[version], each[version]), EXIT).sent


@pytest.mark.parametrize(
    "source",
    [
        *(SERVER.values()),
        *(BESIDE.values()),
        *(GATEWAYS.values()),
        *("10.98.0.4", "fd00:98::4"),  # in the exit's own subnet
        *("192.168.100.1", "192.168.100.2", "fd00:200::1"),
        *("192.168.110.3", "192.168.110.9", "192.168.210.2", "10.1.0.7", "fd00:110::3", "fd00:1::9"),
        *("127.0.0.1", "169.254.1.1", "0.0.0.0", "224.0.0.1", "::1", "fe80::5", "ff02::1"),
    ],
)
def test_spoofed_source_from_the_exit_is_dropped(switch: FakeSwitch, source: str) -> None:
    assert not switch.send(from_beyond(source, AT_HOME[ip_address(source).version]), EXIT).sent


@families
def test_exit_and_terminals_behind_its_port_may_send_and_receive(switch: FakeSwitch, version: int) -> None:
    assert ports(switch.send(by_wifi(AT_HOME[version], EXITS[version]), WIFI).sent) == {EXIT}
    assert ports(switch.send(from_beyond(EXITS[version], AT_HOME[version]), EXIT).sent) == {WIFI, LTE}
    assert ports(switch.send(from_beyond(EXITS[version], SERVER[version]), EXIT).sent) == {SERVERS}
    assert ports(switch.send(from_beyond("10.98.0.3", AT_HOME[4]), EXIT).sent) == {WIFI, LTE}


@families
def test_stranger_is_accepted_only_from_the_exit_port_and_mac(version: int) -> None:
    written = document()
    for each in written["sites"]["far"]["terminals"]["beyond"]["addresses"]:
        each["mac"] = EXIT_MAC
    switch = switch_of(written)
    packet = replace(from_beyond(STRANGERS[version], AT_HOME[version]), eth_src=EXIT_MAC)
    assert switch.send(packet, EXIT).sent
    assert not switch.send(replace(packet, eth_src=TERMINAL_MAC), EXIT).sent
    assert not switch.send(replace(packet, eth_dst=test_peer_program.GATEWAY_MAC), SERVERS).sent
    assert not switch.send(replace(packet, eth_dst=PHONE_MAC), EXIT).sent
    assert not switch.send(replace(packet, vlan_vid=0x1007), EXIT).sent


@families
def test_exit_is_answered_only_for_its_gateway(switch: FakeSwitch, version: int) -> None:
    asks: Any = arp_request if version == 4 else solicit
    answered = switch.send(asks(EXITS[version], GATEWAYS[version]), EXIT).sent
    assert ports(answered) == {EXIT}
    for other in (AT_HOME, STRANGERS, SERVER):
        assert not switch.send(asks(EXITS[version], other[version]), EXIT).sent
    ping = echo(EXITS[version], GATEWAYS[version], eth_dst=GATEWAY_MAC)
    assert ports(switch.send(ping, EXIT).sent) == {EXIT}


# Compilation


def test_exit_serves_only_its_own_address_families() -> None:
    written = document()
    written["sites"]["far"]["terminals"]["beyond"]["addresses"].pop()
    switch = switch_of(written)
    assert ports(switch.send(by_wifi(AT_HOME[4], STRANGERS[4]), WIFI).sent) == {EXIT}
    assert not switch.send(by_wifi(AT_HOME[6], STRANGERS[6]), WIFI).sent
    assert not switch.send(from_beyond(STRANGERS[6], AT_HOME[6]), EXIT).sent


def test_exit_gets_nothing_before_its_mac_is_known() -> None:
    unlearned = replace(known(), observed=replace(known().observed, macs={}))
    assert not switch_with(unlearned).send(by_wifi(AT_HOME[4], STRANGERS[4]), WIFI).sent


# Configuration


def test_invalid_exit_is_refused() -> None:
    no_mirror, two_exits, two_addresses = (document() for _ in range(3))
    del no_mirror["sites"]["far"]["mirrors"]
    two_exits["sites"]["far"]["terminals"]["server"]["exit"] = "true"
    subnets, terminals = (two_addresses["sites"]["far"][name] for name in ("subnets", "terminals"))
    subnets["servers"]["uplink"], subnets["beyond"]["uplink"] = "wifi", "lte"
    terminals["beyond"]["addresses"].append({"address": "192.168.0.8", "port": "lan0"})
    for written, complaint in (
        (no_mirror, r"exit: found 'true', expected false: only a site with `mirrors`"),
        (two_exits, r"exit: found 'true', expected false: server is the exit of this site"),
        (two_addresses, r"addresses: found .*, expected one address of each family"),
    ):
        with pytest.raises(ConfigError, match=rf"sites\.far\.terminals\.beyond\.{complaint}"):
            sites.loaded(written)
