# SPDX-License-Identifier: Apache-2.0
"""Terminals of one subnet behind different ports reach each other. The switch answers for each of them."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.config import Datapath, Site
from controller.model.in_force import Known
from controller.model.observed import Observed, Port
from controller.program.compile import compile
from controller.protocol.switch_messages import Solicited
from tests.controller import sites
from tests.controller.pair import CoreAndSwitch
from tests.fakes.packet import BROADCAST, Packet, advertise, arp_request, echo, solicit
from tests.fakes.pipeline import PacketOutcome
from tests.fakes.switch import FakeSwitch

UPLINKS = 2
DATAPATHS = [Datapath.NETDEV, Datapath.SYSTEM]
UNUSED = {4: "10.0.9.9", 6: "fd00:1::9999"}
families = pytest.mark.parametrize("family", [4, 6])


def written(behind: list[int], *, subnet_mac: bool = True, learned: tuple[int, ...] = ()) -> dict[str, Any]:
    """Return a document with terminal n, from 1 on, behind port lan<behind[n - 1]>. The MACs of `learned` are
    omitted.
    """
    big = sites.many(len(behind), UPLINKS)
    if not subnet_mac:
        del big["subnets"]["lan"]["mac"]
    for number, (terminal, port) in enumerate(zip(big["terminals"].values(), behind, strict=True), start=1):
        for place in terminal["addresses"]:
            place["port"] = f"lan{port}"
            if number in learned:
                del place["mac"]
    return {"sites": {"big": big}}


def site_of(behind: list[int], datapath: Datapath = Datapath.NETDEV, **more: Any) -> Site:
    return replace(sites.loaded(written(behind, **more)).sites[0], datapath=datapath)


def switch_of(site: Site) -> FakeSwitch:
    switch = FakeSwitch.with_ports(*site.ports)
    return switch.load(compile(site, Known(observed=Observed(switch.ports))))


def address(terminal: int, family: int) -> str:
    return f"10.0.1.{terminal}" if family == 4 else f"fd00:1::{terminal + 1:x}"


def mac(terminal: int) -> str:
    return f"02:00:00:00:04:{terminal:02x}"


def asks(terminal: int, target: str, **more: Any) -> Packet:
    """Return a terminal's ARP request or neighbour solicitation, depending on the family of its target."""
    if ":" in target:
        return solicit(address(terminal, 6), target, eth_src=mac(terminal), **more)
    return arp_request(address(terminal, 4), target, eth_src=mac(terminal), **more)


def ask(switch: FakeSwitch, port: str, question: Packet) -> PacketOutcome:
    return switch.send(question, switch.ports[port].number)


def answered_mac(outcome: PacketOutcome, asker: Packet, port: Port, target: str) -> str:
    """Return the MAC of the one answer for `target`, and check that the asker accepts the answer."""
    (sent,) = outcome.sent
    answer = sent.packet
    assert sent.port == port.number and answer.eth_dst == asker.eth_src
    if asker.eth_type == 0x0806:
        assert (answer.arp_op, answer.arp_spa, answer.arp_tpa) == (2, target, asker.arp_spa)
        assert (answer.arp_tha, answer.eth_src) == (asker.eth_src, answer.arp_sha)
        return str(answer.arp_sha)
    assert (answer.ipv6_src, answer.ipv6_dst, answer.nw_ttl) == (target, asker.ipv6_src, 255)
    if answer.icmpv6_type == 136:
        assert (answer.ipv6_nd_target, answer.eth_src, answer.ipv6_nd_sll) == (target, answer.ipv6_nd_tll, None)
        assert answer.icmpv6_nd_reserved == 0x40000000, "solicited, no router, no override"
        return str(answer.ipv6_nd_tll)
    assert (answer.icmpv6_type, answer.ipv6_nd_target) == (135, asker.ipv6_src), (
        "a solicitation in return has the MAC too"
    )
    assert answer.eth_src == answer.ipv6_nd_sll
    return str(answer.ipv6_nd_sll)


@given(
    behind=st.lists(st.integers(1, 4), min_size=2, max_size=6),
    family=st.sampled_from([4, 6]),
    datapath=st.sampled_from(DATAPATHS),
    subnet_mac=st.booleans(),
)
def test_terminal_reaches_all_others_behind_other_ports(
    behind: list[int], family: int, datapath: Datapath, subnet_mac: bool
) -> None:
    switch = switch_of(site_of(behind, datapath, subnet_mac=subnet_mac))
    for one, port in enumerate(behind, start=1):
        for other, other_port in enumerate(behind, start=1):
            own, its = address(one, family), address(other, family)
            question = asks(one, its)
            outcome = ask(switch, f"lan{port}", question)
            if port == other_port:
                assert not outcome.sent, "a terminal behind the same port answers itself"
                continue
            at = switch.ports[f"lan{port}"]
            gateway_mac = answered_mac(outcome, question, at, its)
            assert gateway_mac == ("02:00:00:00:03:01" if subnet_mac else at.mac)
            arrived = ask(switch, f"lan{port}", echo(own, its, eth_src=mac(one), eth_dst=gateway_mac)).sent
            assert [(each.port, each.packet.eth_dst) for each in arrived] == [
                (switch.ports[f"lan{other_port}"].number, mac(other))
            ]


@families
@pytest.mark.parametrize("datapath", DATAPATHS)
def test_no_answer_on_an_uplink_or_for_an_unused_address(family: int, datapath: Datapath) -> None:
    switch = switch_of(site_of([1, 2], datapath))
    assert not ask(switch, "big-u1", asks(1, address(2, family))).sent
    assert not ask(switch, "lan1", asks(1, UNUSED[family])).sent


def test_arp_probe_is_answered_except_for_the_own_address() -> None:
    """Address conflict detection then finds a conflict behind any port, and none with itself (RFC 5227)."""
    switch = switch_of(site_of([1, 2]))
    probe = arp_request("0.0.0.0", address(2, 4), eth_src=mac(1))
    answered_mac(ask(switch, "lan1", probe), probe, switch.ports["lan1"], address(2, 4))
    assert not ask(switch, "lan2", replace(probe, eth_src=mac(2), arp_sha=mac(2))).sent
    announced = arp_request(address(2, 4), address(2, 4), eth_src=mac(2))
    assert announced.eth_dst == BROADCAST and not ask(switch, "lan2", announced).sent


@pytest.mark.parametrize("datapath", DATAPATHS)
def test_duplicate_address_detection_is_punted(datapath: Datapath) -> None:
    switch = switch_of(site_of([1, 2], datapath))
    for target in (address(2, 6), address(1, 6)):
        probe = solicit("::", target, eth_src=mac(1))
        outcome = ask(switch, "lan1", probe)
        assert outcome.punted == (probe,) and not outcome.sent


@pytest.mark.parametrize("datapath", DATAPATHS)
@pytest.mark.parametrize("target", [address(2, 6), "fd00:1::1"], ids=["neighbour", "gateway"])
def test_routed_solicitation_is_not_answered(datapath: Datapath, target: str) -> None:
    for asker in (address(1, 6), "::"):
        forged = replace(solicit(asker, target, eth_src=mac(1)), nw_ttl=254)
        assert ask(switch_of(site_of([1, 2], datapath)), "lan1", forged) == PacketOutcome()


@families
def test_asker_is_learned_unless_its_mac_is_configured(family: int) -> None:
    switch = switch_of(site_of([1, 2, 3], learned=(1,)))
    question = asks(1, address(2, family))
    assert ask(switch, "lan1", question).punted == (question,)
    by_unicast = replace(question, eth_dst="02:00:00:00:03:01", **({"ipv6_dst": address(2, 6)} if family == 6 else {}))
    for each in (question, by_unicast):  # the latter checks an earlier answer
        answered_mac(ask(switch, "lan1", each), each, switch.ports["lan1"], address(2, family))
    assert not ask(switch, "lan2", asks(2, address(1, family))).punted
    announced = arp_request(address(1, 4), address(1, 4), eth_src=mac(1))
    assert ask(switch, "lan1", announced).punted == (announced,), "unanswered packets are learned from too"


@families
def test_missing_port_is_not_answered_for(family: int) -> None:
    site = site_of([1, 2, 3])
    switch = FakeSwitch.with_ports(*(name for name in site.ports if name != "lan3"))
    switch.load(compile(site, Known(observed=Observed(switch.ports))))
    assert not ask(switch, "lan1", asks(1, address(3, family))).sent
    assert len(ask(switch, "lan1", asks(1, address(2, family))).sent) == 1


@pytest.mark.parametrize("datapath", DATAPATHS)
def test_flows_grow_linearly_with_terminals(datapath: Datapath) -> None:
    together, apart = (len(compiled(site_of(ports, datapath)).flows) for ports in ([1] * 250, list(range(1, 251))))
    ten, twenty = (len(compiled(site_of(list(range(1, each + 1)), datapath)).flows) for each in (10, 20))
    assert apart - twenty == (twenty - ten) * 23
    assert apart < 5 * together


def compiled(site: Site) -> Any:
    return compile(site, Known(observed=Observed(FakeSwitch.with_ports(*site.ports).ports)))


@pytest.mark.parametrize("datapath", DATAPATHS)
def test_app_advertises_for_neighbours_if_no_flow_can(datapath: Datapath) -> None:
    document = written([1, 2])
    document["sites"]["big"]["datapath"] = datapath.value
    config = sites.loaded(document)
    pair = CoreAndSwitch(config, [FakeSwitch.with_ports(*config.sites[0].ports)])
    session = pair.connect()
    pair.drain()
    port = pair.fakes[1].ports["lan1"].number

    def solicited(target: str, asker: str) -> int:
        pair.advertised.clear()
        pair.tell(Solicited(session, port, IPv6Address(target), IPv6Address(asker), mac(1)))
        pair.drain()
        assert all((each.mac, each.proxied) == ("02:00:00:00:03:01", True) for each in pair.advertised)
        return len(pair.advertised)

    assert solicited(address(2, 6), "::") == 1
    assert solicited(address(2, 6), address(1, 6)) == (datapath is Datapath.SYSTEM)
    assert solicited(address(1, 6), "::") == 0, "its own address on its own port"
    assert solicited(UNUSED[6], "::") == 0


def test_unicast_solicitation_is_left_to_the_app_on_the_kernel() -> None:
    """The switch would solicit back with unicast too, and two such switches would never stop."""
    switch = switch_of(site_of([1, 2], Datapath.SYSTEM))
    (back,) = ask(switch, "lan1", asks(1, address(2, 6))).sent
    assert back.packet.ipv6_dst == address(1, 6)
    told = advertise(address(1, 6), address(2, 6), eth_src=mac(1), eth_dst="02:00:00:00:03:01")
    assert not ask(switch, "lan1", told).sent, "the answer reaches no neighbour, which has not asked"
    alone = replace(asks(1, address(2, 6)), ipv6_dst=address(2, 6), eth_dst="02:00:00:00:03:01")
    outcome = ask(switch, "lan1", alone)
    assert not outcome.sent and outcome.punted == (alone,)
