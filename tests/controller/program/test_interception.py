# SPDX-License-Identifier: Apache-2.0
"""TCP of relayed terminals goes to the host, which sends packets in their names over the uplinks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.model.config import Mode
from controller.model.relaying import HOST_MAC, Fallback
from controller.program.compile import compile
from controller.program.readback import counting_ids
from tests.controller import relayed_site, sites
from tests.controller.pair import CoreAndSwitch
from tests.controller.program.test_compile import leaves
from tests.controller.relayed_site import PORTS
from tests.controller.sites import PHONE_MAC
from tests.fakes.packet import Packet, arp_request, echo, ip, sctp, tcp, udp
from tests.fakes.switch import FakeSwitch

C1, C2, LAN, WIFI, LTE = (PORTS[name].number for name in ("c1", "c2", "lan0", "wifi0", "lte0"))
HOME, BY_WIFI, BY_LTE = (PORTS[name].number for name in ("rl-home", "rl-wifi", "rl-lte"))
LAN_MAC, CLIENT_MAC = PORTS["lan0"].mac, "08:00:27:f9:49:62"
SERVER, SERVER6 = "198.51.100.7", "2001:db8::7"
PHONE, PHONE6, LAPTOP, CLIENT = "10.1.0.7", "fd00:1::7", "10.1.0.8", "192.168.110.3"
PHONE_BY_WIFI, PHONE_BY_LTE, CLIENT_BY_WIFI, CLIENT_BY_LTE = "10.97.1.7", "10.97.2.7", "10.97.1.3", "10.97.2.3"
ANYTHING = "02:00:00:00:00:99"  # an unused neighbour of the host


def ready(
    modes: dict[str, Mode] | None = None,
    active: dict[str, str] | None = None,
    missing: tuple[str, ...] = (),
    down: tuple[str, ...] = (),
    **relaying: object,
) -> FakeSwitch:
    site = relayed_site.site(**relaying)
    return relayed_site.switch_with(site, relayed_site.known(site, modes, active, missing, down))


@pytest.mark.parametrize(
    ("packet", "in_port"),
    [
        (tcp(PHONE, SERVER, eth_dst=LAN_MAC), LAN),
        (tcp(PHONE6, SERVER6, eth_dst=LAN_MAC), LAN),
        (tcp(CLIENT, SERVER, eth_dst=CLIENT_MAC), C1),
        (tcp("192.168.210.3", SERVER, eth_dst=PORTS["c2"].mac), C2),
    ],
)
def test_tcp_of_a_relayed_terminal_goes_only_to_the_host(packet: Packet, in_port: int) -> None:
    (sent,) = leaves(ready(), packet, in_port).items()
    assert (sent[0], sent[1].eth_dst, sent[1].nw_ttl) == (HOME, HOST_MAC, 64)


@pytest.mark.parametrize(
    ("packet", "ports"),
    [
        (udp(PHONE, SERVER, eth_dst=LAN_MAC), {LTE}),
        (sctp(PHONE, SERVER, eth_dst=LAN_MAC), {LTE}),
        (echo(PHONE, SERVER, eth_dst=LAN_MAC), {LTE}),
        (ip(PHONE, SERVER, 47, eth_dst=LAN_MAC), {LTE}),
        (tcp(PHONE, "203.0.113.9", eth_dst=LAN_MAC), {WIFI, LTE}),  # excepted
        (tcp(PHONE, CLIENT, eth_dst=LAN_MAC), {C1}),  # of another terminal
        (tcp(PHONE, "10.1.0.99", eth_dst=LAN_MAC), set()),  # of an unused address inside
        (tcp(PHONE, "192.168.100.2", eth_dst=LAN_MAC), set()),  # of the gateway
        (tcp(PHONE, "10.97.1.1", eth_dst=LAN_MAC), set()),  # likewise
        (tcp(PHONE, "224.0.0.9", eth_dst=LAN_MAC), set()),
        (tcp(LAPTOP, SERVER, eth_dst=LAN_MAC), {WIFI, LTE}),  # is not relayed
    ],
)
def test_all_other_packets_are_forwarded_as_usual(packet: Packet, ports: set[int]) -> None:
    assert set(leaves(ready(), packet, LAN)) == ports


def test_family_without_host_addresses_is_not_intercepted() -> None:
    written = relayed_site.document()
    for uplink in written["sites"]["home"]["relaying"]["uplinks"].values():
        uplink["gateways"].pop()
    site = sites.loaded(written).sites[0]
    switch = relayed_site.switch_with(site, relayed_site.known(site))
    assert set(leaves(switch, tcp(PHONE6, SERVER6, eth_dst=LAN_MAC), LAN)) == {WIFI, LTE}
    assert set(leaves(switch, tcp(PHONE, SERVER, eth_dst=LAN_MAC), LAN)) == {HOME}


def test_packet_passed_on_by_the_host_is_not_intercepted_again() -> None:
    (sent,) = leaves(ready(), tcp(SERVER, PHONE, eth_dst=ANYTHING), HOME).items()
    assert (sent[0], sent[1].eth_dst, sent[1].eth_src) == (LAN, PHONE_MAC, LAN_MAC), "nor is an answer"
    packet = tcp(PHONE, SERVER, eth_dst=ANYTHING)
    assert set(leaves(ready(), packet, HOME)) == {WIFI, LTE}
    assert set(leaves(ready({"phone": Mode.SINGLE}), packet, HOME)) == {LTE}


@pytest.mark.parametrize(
    ("packet", "in_port"),
    [
        (tcp(LAPTOP, SERVER, eth_dst=ANYTHING), HOME),  # a terminal that is not intercepted
        (tcp(SERVER, LAPTOP, eth_dst=ANYTHING), HOME),
        (udp(PHONE, SERVER, eth_dst=ANYTHING), HOME),
        (udp(SERVER, PHONE, eth_dst=ANYTHING), HOME),
        (tcp(PHONE_BY_WIFI, SERVER, eth_dst=ANYTHING), HOME),
        (tcp(PHONE, SERVER, eth_dst=PORTS["rl-wifi"].mac), BY_WIFI),
        (tcp(PHONE_BY_LTE, SERVER, eth_dst=PORTS["rl-wifi"].mac), BY_WIFI),
        (tcp("10.97.1.99", SERVER, eth_dst=PORTS["rl-wifi"].mac), BY_WIFI),  # of no terminal
        (tcp(PHONE_BY_WIFI, SERVER, eth_dst=LAN_MAC), LAN),
        (tcp(PHONE_BY_WIFI, PHONE, eth_dst=PORTS["wifi0"].mac), WIFI),
    ],
)
def test_spoofed_packet_of_the_host_is_dropped(packet: Packet, in_port: int) -> None:
    assert not leaves(ready(), packet, in_port)


def test_host_connection_follows_the_mode_of_its_terminal() -> None:
    switch = ready({"phone": Mode.BICAST, "client": Mode.SINGLE}, {"client": "lte"})
    for source, in_port in ((PHONE_BY_WIFI, BY_WIFI), (PHONE_BY_LTE, BY_LTE)):
        assert set(leaves(switch, _by(source, in_port), in_port)) == {WIFI, LTE}
    for source, in_port, uplink in ((CLIENT_BY_WIFI, BY_WIFI, WIFI), (CLIENT_BY_LTE, BY_LTE, LTE)):
        assert set(leaves(switch, _by(source, in_port), in_port)) == {uplink}
    switch = ready({"phone": Mode.OFF}, {"phone": "lte"})
    assert set(leaves(switch, _by(PHONE_BY_WIFI, BY_WIFI), BY_WIFI)) == {WIFI}


def test_single_subflow_leaves_its_uplink_only_if_accepted() -> None:
    """A subflow uses another uplink if its own is down, or if a peer site accepts it over any."""
    switch = ready({"client": Mode.SINGLE}, {"client": "wifi"})
    switch.down("wifi0")
    assert set(leaves(switch, _by(CLIENT_BY_WIFI, BY_WIFI), BY_WIFI)) == {LTE}
    site = replace(relayed_site.site(), other_end="far")
    switch = relayed_site.switch_with(site, relayed_site.known(site, {"client": Mode.SINGLE}, {"client": "lte"}))
    assert set(leaves(switch, _by(CLIENT_BY_WIFI, BY_WIFI), BY_WIFI)) == {LTE}


def _by(source: str, in_port: int) -> Packet:
    (mac,) = (port.mac for port in PORTS.values() if port.number == in_port)
    return tcp(source, SERVER, eth_src=HOST_MAC, eth_dst=mac, tcp_dst=443)


@pytest.mark.parametrize(("address", "by"), [(PHONE_BY_WIFI, BY_WIFI), ("fd00:972::7", BY_LTE)])
def test_packet_from_a_relay_reaches_the_host(address: str, by: int) -> None:
    source = SERVER if "." in address else SERVER6
    for uplink, mac in ((WIFI, "08:00:27:81:6b:cf"), (LTE, PORTS["lte0"].mac)):
        (sent,) = leaves(ready(), tcp(source, address, eth_dst=mac), uplink).items()
        assert (sent[0], sent[1].eth_dst) == (by, HOST_MAC)


def test_host_resolves_its_gateway() -> None:
    (answer,) = leaves(ready(), arp_request(PHONE_BY_WIFI, "10.97.1.1", eth_src=HOST_MAC), BY_WIFI).values()
    assert (answer.arp_sha, answer.eth_dst) == (PORTS["rl-wifi"].mac, HOST_MAC)


def test_tcp_uses_the_fallback_when_the_host_is_missing() -> None:
    packet = tcp(PHONE, SERVER, eth_dst=LAN_MAC)
    for missing, down in ((("rl-home",), ()), ((), ("rl-home",))):
        assert set(leaves(ready(missing=missing, down=down), packet, LAN)) == {WIFI, LTE}
        blocking = ready(missing=missing, down=down, fallback=Fallback.BLOCK)
        assert not leaves(blocking, packet, LAN)
        assert set(leaves(blocking, tcp(PHONE, "203.0.113.9", eth_dst=LAN_MAC), LAN)) == {WIFI, LTE}


def test_packet_delivered_twice_counts_once() -> None:
    site = relayed_site.site()
    labels = {group_id: group.label for group_id, group in compile(site, relayed_site.known(site)).groups.items()}
    _, receives = counting_ids(site)["phone"]
    assert sorted(labels[group_id] for group_id in receives) == [f"phone to {PHONE}", f"phone to {PHONE6}"]


def test_program_is_correct_after_ports_come_and_go() -> None:
    fake = FakeSwitch({name: port for name, port in PORTS.items() if not name.startswith("rl-")})
    pair = CoreAndSwitch(relayed_site.config(), [fake])
    pair.connect()
    pair.drain()
    for name, port in [("rl-wifi", True), ("rl-home", True), ("rl-lte", True), ("rl-home", False), ("rl-home", True)]:
        pair.port(name, PORTS[name] if port else None)
        pair.drain()
        assert pair.installed() == pair.compiled()
    assert not {each.out_port for each in pair.asked} & {HOME, BY_WIFI, BY_LTE}
    before = fake.changes.copy()
    pair.connect()
    pair.drain()
    assert fake.changes == before, "correct entries are not changed"
