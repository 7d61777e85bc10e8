# SPDX-License-Identifier: Apache-2.0
"""Packets take the expected path through the compiled program, which a fake switch executes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.config import Datapath, Mode, Site
from controller.model.in_force import InForce, Known
from controller.model.observed import Observed, Port
from controller.model.overrides import Overrides
from controller.program.compile import compile
from controller.program.program import GROUP_IDS, Flow, Output, SetField, fields
from controller.program.readback import remembered
from tests.controller import sites
from tests.controller.sites import LTE_HOP_MAC, PHONE_MAC, PORTS, WIFI_HOP_MAC
from tests.fakes.packet import TERMINAL_MAC, Packet, arp_request, echo, solicit, tcp, udp
from tests.fakes.pipeline import PacketOutcome, SentPacket
from tests.fakes.switch import FakeSwitch

C1, C2, LAN, WIFI, LTE = (PORTS[name].number for name in ("c1", "c2", "lan0", "wifi0", "lte0"))
CLIENT_GATEWAY_MAC, LAN_GATEWAY_MAC, WIFI_MAC = "08:00:27:f9:49:62", PORTS["lan0"].mac, "08:00:27:81:6b:cf"
SERVER = "192.168.0.2"


def switch_with(known: Known, site: Site | None = None) -> FakeSwitch:
    return FakeSwitch(PORTS).load(compile(site or sites.paper_site(), known))


def ready(modes: dict[str, Mode] | None = None, active: dict[str, str] | None = None) -> FakeSwitch:
    return switch_with(sites.known(sites.paper_site(), modes, active))


def from_client(**more: object) -> Packet:
    return tcp("192.168.110.3", SERVER, eth_dst=CLIENT_GATEWAY_MAC, **more)  # type: ignore[arg-type]


def from_phone(*, eth_dst: str = LAN_GATEWAY_MAC) -> Packet:
    return tcp("10.1.0.7", SERVER, eth_dst=eth_dst)


def leaves(switch: FakeSwitch, packet: Packet, in_port: int) -> dict[int, Packet]:
    sent = switch.send(packet, in_port).sent
    assert len({each.port for each in sent}) == len(sent), "a port sends one copy at most"
    return {each.port: each.packet for each in sent}


def test_each_uplink_carries_one_copy_with_its_own_macs() -> None:
    packet = from_client(payload=7)
    assert leaves(ready(), packet, C1) == {
        WIFI: replace(packet, eth_src=WIFI_MAC, eth_dst=WIFI_HOP_MAC, nw_ttl=63),
        LTE: replace(packet, eth_src=PORTS["lte0"].mac, eth_dst=LTE_HOP_MAC, nw_ttl=63),
    }


def test_packet_outside_bicast_uses_the_active_uplink() -> None:
    packet = udp("192.168.110.3", SERVER, eth_dst=CLIENT_GATEWAY_MAC)
    assert leaves(ready(), packet, C1).keys() == {WIFI}
    assert leaves(ready(active={"client": "lte"}), packet, C1).keys() == {LTE}


def test_single_survives_a_dead_or_removed_uplink_without_a_controller() -> None:
    switch = ready({"client": Mode.SINGLE})
    for packet, port in ((from_client(), C1), (tcp("192.168.210.3", SERVER, eth_dst=PORTS["c2"].mac), C2)):
        switch.down("wifi0")
        assert leaves(switch, packet, port).keys() == {LTE}
        switch.up("wifi0")
        assert leaves(switch, packet, port).keys() == {WIFI}
    assert leaves(ready({"phone": Mode.SINGLE}, {"phone": "dsl"}), from_phone(), LAN).keys() == {LTE}


def test_off_sends_each_subnet_by_its_own_uplink() -> None:
    switch = ready({"client": Mode.OFF, "phone": Mode.OFF}, {"client": "lte"})
    assert leaves(switch, from_client(), C1).keys() == {WIFI}
    assert leaves(switch, tcp("192.168.210.3", SERVER, eth_dst=PORTS["c2"].mac), C2).keys() == {LTE}
    assert leaves(switch, from_phone(), LAN).keys() == {LTE}


def test_uplink_without_a_known_next_hop_is_not_used() -> None:
    site = sites.paper_site()
    switch = switch_with(Known(observed=Observed(PORTS)))
    assert leaves(switch, from_client(), C1).keys() == {WIFI}
    assert compile(site, Known()).flows.keys() == compile(site, Known(observed=Observed({}))).flows.keys()


@pytest.mark.parametrize("source", ["192.168.110.3", "fd00:110::3"])
def test_neighbours_behind_one_port_are_reached_across_subnets(source: str) -> None:
    written = sites.document()
    home = written["sites"]["home"]
    home["terminals"]["phone"]["addresses"] = [
        {"address": "10.1.0.7", "port": "c1", "mac": PHONE_MAC},
        {"address": "fd00:1::7", "port": "c1", "mac": PHONE_MAC},
    ]
    site = sites.loaded(written).sites[0]
    switch = switch_with(sites.known(site), site)
    phone = "10.1.0.7" if "." in source else "fd00:1::7"
    there = leaves(switch, tcp(source, phone, eth_dst=CLIENT_GATEWAY_MAC), C1)
    assert {port: packet.eth_dst for port, packet in there.items()} == {C1: PHONE_MAC}
    answer = leaves(switch, tcp(phone, source, eth_src=PHONE_MAC, eth_dst=PORTS["c1"].mac), C1)
    assert {port: packet.eth_dst for port, packet in answer.items()} == {C1: TERMINAL_MAC}
    server = SERVER if "." in source else "fd00::2"
    assert leaves(switch, tcp(server, phone, eth_dst=WIFI_MAC), WIFI).keys() == {C1}


@pytest.mark.parametrize("source", ["192.168.110.3", "fd00:110::3"])
def test_terminal_address_is_accepted_only_from_its_mac(source: str) -> None:
    there = SERVER if "." in source else "fd00::2"
    packet = tcp(source, there, eth_dst=CLIENT_GATEWAY_MAC)
    assert leaves(ready(), packet, C1).keys() == {WIFI, LTE}
    stranger = replace(packet, eth_src="02:00:00:00:00:66")
    assert not ready().send(stranger, C1).sent
    beside = replace(stranger, ipv4_dst="10.1.0.7") if "." in source else replace(stranger, ipv6_dst="fd00:1::7")
    assert not ready().send(beside, C1).sent, "another terminal does not get it either"
    assert leaves(ready(), replace(from_phone(), eth_src="02:00:00:00:00:66"), LAN), "no MAC is configured for it"


@pytest.mark.parametrize("uplink", [WIFI, LTE])
def test_answers_reach_the_terminal_from_either_uplink(uplink: int) -> None:
    own_mac = WIFI_MAC if uplink == WIFI else PORTS["lte0"].mac
    answer = tcp(SERVER, "192.168.110.3", eth_dst=own_mac)
    (sent,) = ready().send(answer, uplink).sent
    assert sent == SentPacket(C1, replace(answer, eth_src=CLIENT_GATEWAY_MAC, eth_dst=TERMINAL_MAC, nw_ttl=63))


@pytest.mark.parametrize("terminal", ["192.168.110.3", "fd00:110::3"])
@pytest.mark.parametrize("uplink", ["wifi0", "lte0"])
def test_uplink_accepts_only_packets_for_its_own_mac(terminal: str, uplink: str) -> None:
    """A switch that floods also delivers packets for the other uplink."""
    macs = {"wifi0": WIFI_MAC, "lte0": PORTS["lte0"].mac}
    other = {"wifi0": "lte0", "lte0": "wifi0"}[uplink]
    answer = tcp(SERVER if "." in terminal else "fd00::2", terminal, eth_dst=macs[uplink])
    assert leaves(ready(), answer, PORTS[uplink].number).keys() == {C1}
    assert not ready().send(replace(answer, eth_dst=macs[other]), PORTS[uplink].number).sent


@pytest.mark.parametrize("ttl", [0, 1])
def test_packet_with_expired_ttl_is_dropped(ttl: int) -> None:
    assert not ready().send(from_client(ttl=ttl), C1).sent
    assert not ready().send(tcp(SERVER, "192.168.110.3", eth_dst=WIFI_MAC, ttl=ttl), WIFI).sent


@pytest.mark.parametrize("source", ["192.168.110.9", "192.168.210.3"], ids=["a stranger's", "of another port"])
def test_packet_from_a_foreign_source_is_not_forwarded(source: str) -> None:
    assert not ready().send(tcp(source, SERVER, eth_dst=CLIENT_GATEWAY_MAC), C1).sent


@pytest.mark.parametrize("in_port", [C1, WIFI])
def test_tagged_packet_is_dropped(in_port: int) -> None:
    packet = from_client() if in_port == C1 else tcp(SERVER, "192.168.110.3", eth_dst=WIFI_MAC)
    outcome = ready().send(replace(packet, vlan_vid=0x1005), in_port)
    assert not outcome.sent and not outcome.punted


@pytest.mark.parametrize(
    "destination",
    [
        *("127.0.0.1", "0.1.2.3", "240.0.0.1", "255.255.255.255", "224.0.0.251", "192.168.110.77", "192.168.110.2"),
        *("192.168.100.255", "192.168.200.255", "192.168.210.255"),
    ],
)
def test_unroutable_destination_leaves_by_no_uplink(destination: str) -> None:
    assert not ready().send(tcp("192.168.110.3", destination, eth_dst=CLIENT_GATEWAY_MAC), C1).sent
    assert not ready().send(tcp("192.168.110.3", SERVER, eth_dst="02:00:00:00:00:99"), C1).sent, "another's MAC"


def test_stranger_on_an_uplink_reaches_only_terminals() -> None:
    for source in (SERVER, "192.168.110.3"):
        assert not ready().send(tcp(source, "203.0.113.9", eth_dst=WIFI_MAC), WIFI).sent


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        *((source, "192.168.110.3") for source in (
            "10.1.0.7", "10.1.0.99", "192.168.110.3", "192.168.110.2", "192.168.100.2", "192.168.200.2",
            "127.0.0.1", "224.0.0.1", "255.255.255.255", "0.0.0.0", "169.254.1.1",
        )),
        *((source, "fd00:110::3") for source in (
            "fd00:1::7", "fd00:110::3", "fd00:110::2", "fd00:100::2", "fd00:200::2", "::", "::1", "ff02::1", "fe80::1",
            "::ffff:c0a8:6e03",
        )),
    ],
)  # fmt: skip
@pytest.mark.parametrize("uplink", ["wifi0", "lte0"])
def test_inside_source_address_from_outside_is_dropped(source: str, destination: str, uplink: str) -> None:
    mac = WIFI_MAC if uplink == "wifi0" else PORTS[uplink].mac
    assert not ready().send(tcp(source, destination, eth_dst=mac), PORTS[uplink].number).sent


@pytest.mark.parametrize("source", ["192.168.100.1", "192.168.100.77", "fd00:100::1", "fd00:200::1", "2001:db8::1"])
def test_uplink_neighbours_and_remote_hosts_are_accepted(source: str) -> None:
    destination = "192.168.110.3" if "." in source else "fd00:110::3"
    assert leaves(ready(), tcp(source, destination, eth_dst=WIFI_MAC), WIFI).keys() == {C1}


@pytest.mark.parametrize("vlan", [0x1005, 0x1000])
def test_tagged_packets_between_foreign_ports_pass(vlan: int) -> None:
    switch = ready()
    switch.ports |= {"other0": Port(8, "02:00:00:00:00:08", True), "other1": Port(9, "02:00:00:00:00:09", True)}
    switch.add_foreign(Flow(0, 1, fields(in_port=8), (Output(9),)))
    packet = replace(from_client(), vlan_vid=vlan)
    assert leaves(switch, packet, 8) == {9: packet}


def test_arp_for_the_gateway_is_answered_by_the_switch() -> None:
    outcome = ready().send(arp_request("192.168.110.3", "192.168.110.2", eth_src=TERMINAL_MAC), C1)
    (sent,) = outcome.sent
    assert (sent.port, sent.packet.arp_op, sent.packet.arp_sha) == (C1, 2, CLIENT_GATEWAY_MAC)
    assert (sent.packet.arp_spa, sent.packet.arp_tpa) == ("192.168.110.2", "192.168.110.3")
    assert (sent.packet.eth_dst, sent.packet.arp_tha) == (TERMINAL_MAC, TERMINAL_MAC)


def test_arp_from_an_unconfigured_mac_is_also_punted() -> None:
    outcome = ready().send(arp_request("10.1.0.7", "10.1.0.1", eth_src=PHONE_MAC), LAN)
    assert len(outcome.punted) == 1 and outcome.punted[0].arp_sha == PHONE_MAC
    assert [sent.port for sent in outcome.sent] == [LAN]


@pytest.mark.parametrize("datapath", list(Datapath))
def test_solicitation_for_the_gateway_is_answered_by_the_switch(datapath: Datapath) -> None:
    """A switch that cannot advertise solicits back, from which the asker learns (RFC 4861, 7.2.3), and punts."""
    asked = solicit("fd00:110::3", "fd00:110::2", eth_src=TERMINAL_MAC)
    site = replace(sites.paper_site(), datapath=datapath)
    outcome = switch_with(sites.known(site), site).send(asked, C1)
    (sent,) = outcome.sent
    answer = sent.packet
    assert (sent.port, answer.eth_src, answer.eth_dst) == (C1, CLIENT_GATEWAY_MAC, TERMINAL_MAC)
    assert (answer.ipv6_src, answer.ipv6_dst, answer.nw_ttl) == ("fd00:110::2", "fd00:110::3", 255)
    options = (answer.icmpv6_type, answer.ipv6_nd_target, answer.ipv6_nd_tll, answer.ipv6_nd_sll)
    if datapath is Datapath.NETDEV:
        assert options == (136, "fd00:110::2", CLIENT_GATEWAY_MAC, None)
        assert answer.icmpv6_nd_reserved == 0xE0000000
    else:
        assert options == (135, "fd00:110::3", None, CLIENT_GATEWAY_MAC) and outcome.punted == (asked,)


def test_gateways_that_cannot_advertise_solicit_back_once() -> None:
    """The reply is a solicitation too, and the other gateway must not answer it with another one."""
    asked = solicit("fd00:100::1", "fd00:100::2", eth_src=WIFI_HOP_MAC)
    (back,) = ready().send(asked, WIFI).sent
    assert ready().send(solicit("fe80::1", "fd00:100::2", eth_src=WIFI_HOP_MAC), WIFI).sent, "from a link-local source"
    assert (back.packet.ipv6_dst, back.packet.ipv6_nd_target) == ("fd00:100::1", "fd00:100::1")
    written = sites.document()
    wifi = written["sites"]["home"]["uplinks"]["wifi"]
    wifi["addresses"][1], wifi["next_hops"][1]["address"], wifi["mac"] = "fd00:100::1/64", "fd00:100::2", WIFI_HOP_MAC
    other = sites.loaded(written).sites[0]
    outcome = switch_with(sites.known(other), other).send(back.packet, WIFI)
    assert not outcome.sent and outcome.punted == (back.packet,), "the app advertises"


@pytest.mark.parametrize("datapath", list(Datapath))
@pytest.mark.parametrize("own", ["fd00:100::2", "fd00:200::2", "fd00:110::2"])
def test_solicitation_from_a_gateway_address_is_dropped(own: str, datapath: Datapath) -> None:
    site = replace(sites.paper_site(), datapath=datapath)
    switch = switch_with(sites.known(site), site)
    assert switch.send(solicit(own, "fd00:100::2", eth_src=LTE_HOP_MAC), WIFI) == PacketOutcome()
    if own == "fd00:110::2":
        assert switch.send(solicit(own, own, eth_src=LTE_HOP_MAC), C1) == PacketOutcome()


def test_kernel_datapath_flows_set_only_supported_fields() -> None:
    program = compile(sites.paper_site(), sites.known(sites.paper_site()))
    written = {each.field for flow in program.flows.values() for each in flow.actions if isinstance(each, SetField)}
    assert not {"icmpv6_nd_options_type", "icmpv6_nd_reserved"} & written


@pytest.mark.parametrize(("source", "gateway"), [("192.168.110.3", "192.168.110.2"), ("fd00:110::3", "fd00:110::2")])
def test_gateway_answers_a_ping(source: str, gateway: str) -> None:
    for ttl in (1, 255):
        (sent,) = ready().send(echo(source, gateway, eth_dst=CLIENT_GATEWAY_MAC, ttl=ttl), C1).sent
        assert (sent.port, sent.packet.icmpv4_type, sent.packet.icmpv6_type) in [(C1, 0, None), (C1, None, 129)]
        assert sent.packet.nw_ttl == 64, "a reply has a full TTL"


def test_peer_of_a_31_bit_link_is_no_broadcast_address() -> None:
    written = sites.document()
    wifi = written["sites"]["home"]["uplinks"]["wifi"]
    wifi["addresses"][0], wifi["next_hops"][0]["address"] = "192.168.100.2/31", "192.168.100.3"
    site = sites.loaded(written).sites[0]
    packet = tcp("192.168.110.3", "192.168.100.3", eth_dst=CLIENT_GATEWAY_MAC)
    assert WIFI in leaves(switch_with(sites.known(site), site), packet, C1)


def test_flows_follow_a_port_with_a_new_number_or_mac() -> None:
    site = sites.paper_site()
    known = sites.known(site)
    for port in (replace(PORTS["lan0"], number=33), replace(PORTS["lan0"], mac="02:00:00:00:00:33")):
        ports = {**PORTS, "lan0": port}
        again = compile(site, replace(known, observed=replace(known.observed, ports=ports)))
        switch = FakeSwitch(ports).load(again)
        sent = switch.send(from_phone(eth_dst=port.mac), port.number).sent
        assert {each.port for each in sent} == {WIFI, LTE}


def test_flows_do_not_depend_on_modes_uplinks_macs_or_states() -> None:
    site = sites.paper_site()
    flows = compile(site, sites.known(site)).flows
    down = {**PORTS, "wifi0": replace(PORTS["wifi0"], up=False)}
    for other in (
        sites.known(site, {"client": Mode.OFF, "phone": Mode.SINGLE}, {"client": "lte"}),
        Known(observed=Observed(PORTS)),
        Known(observed=Observed(down, sites.learned(site))),
    ):
        assert compile(site, other).flows == flows


def test_group_ids_are_reserved_and_stable() -> None:
    written = sites.document()
    site = sites.loaded(written).sites[0]
    before = {group.label: group.group_id for group in compile(site, Known()).groups.values()}
    del written["sites"]["home"]["terminals"]["client"]
    after = compile(sites.loaded(written).sites[0], Known()).groups.values()
    assert all(before[group.label] == group.group_id for group in after)
    assert set(before.values()) <= set(GROUP_IDS) and len(set(before.values())) == len(before)


def test_learned_macs_are_read_back_from_groups() -> None:
    site = sites.paper_site()
    for mode in Mode:
        known = sites.known(site, {"client": mode, "phone": mode})
        program = compile(site, known)
        again = remembered(site, PORTS, program.groups)
        assert compile(site, replace(known, observed=Observed(PORTS, again))) == program


modes = st.sampled_from(list(Mode))


@given(
    terminals=st.integers(1, 6),
    count=st.integers(1, 8),
    chosen=st.lists(modes, min_size=6, max_size=6),
    active=st.lists(st.integers(1, 8), min_size=6, max_size=6),
    down=st.sets(st.integers(1, 8)),
    protocol=st.sampled_from([tcp, udp]),
    sixth=st.booleans(),
)
def test_no_uplink_or_terminal_gets_a_copy_twice(
    terminals: int, count: int, chosen: list[Mode], active: list[int], down: set[int], protocol: object, sixth: bool
) -> None:
    site = sites.loaded({"sites": {"big": sites.many(terminals, count)}}).sites[0]
    names = [*(uplink.port for uplink in site.uplinks), *site.inside_ports]
    switch = FakeSwitch.with_ports(*names)
    for at in down & set(range(1, count + 1)):
        switch.down(names[at - 1])
    in_force = InForce(
        Overrides(
            {terminal.name: mode for terminal, mode in zip(site.terminals, chosen, strict=False)},
            active={terminal.name: f"up{at}" for terminal, at in zip(site.terminals, active, strict=False)},
        )
    )
    switch.load(compile(site, Known(in_force, Observed(switch.ports))))
    inside = switch.ports[site.inside_ports[0]].number
    for terminal in site.terminals:
        place = terminal.addresses[1 if sixth else 0]
        there = "fd99::9" if sixth else SERVER
        packet = protocol(str(place.address), there, eth_src=place.mac, eth_dst="02:00:00:00:03:01")  # type: ignore[operator]
        sent = switch.send(packet, inside).sent
        up = count - len(down & set(range(1, count + 1)))
        assert len({each.port for each in sent}) == len(sent) <= up
        assert inside not in {each.port for each in sent}
        if in_force.overrides.mode(terminal) is Mode.BICAST and protocol is tcp:
            assert len(sent) == up
        if in_force.overrides.mode(terminal) is Mode.SINGLE and up:
            assert len(sent) == 1
        for uplink_port in range(1, count + 1):
            if uplink_port not in down:
                own_mac = f"02:00:00:00:01:{uplink_port:02x}"
                answer = protocol("fd99::9" if sixth else SERVER, str(place.address), eth_dst=own_mac)  # type: ignore[operator]
                assert [each.port for each in switch.send(answer, uplink_port).sent] == [inside]
