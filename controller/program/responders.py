# SPDX-License-Identifier: Apache-2.0
"""Flows that answer ARP, neighbour discovery and pings for the gateway's own addresses.

A neighbour solicitation takes two tables: OpenFlow writes the fields of an advertisement only after a flow has matched
one. Duplicate address detection is left to the app: its answer needs an option that the question lacks.

Open vSwitch's kernel datapath cannot write an advertisement's flags and option type. There a solicitation goes to the
app, which advertises, and returns as the gateway's own solicitation of the asker. The asker learns the MAC from its
source link-layer address (RFC 4861, 7.2.3), even with no controller alive. That entry is unconfirmed, so the asker asks
again.

Only a solicitation to a solicited-node group returns so, and only by unicast: two gateways would otherwise solicit each
other for ever. The app answers unicast ones. A host without an answer asks the group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.model.config import Datapath
from controller.model.traffic import Address, Family
from controller.program.program import Action, Flow, Move, OutputInPort, SetField, ToController, Value, fields
from controller.program.tables import (
    ADVERTISE,
    ALONE_PRIORITY,
    ANSWER_PRIORITY,
    ECHO_PRIORITY,
    ENTRY,
    LEARN_AND_ANSWER_PRIORITY,
    LEARN_PRIORITY,
    OURSELVES_PRIORITY,
    TO_APP_PRIORITY,
)

ARP = 0x0806
ARP_REQUEST, ARP_REPLY = 1, 2
TARGET_LINK_LAYER = 2  # RFC 4861, 4.6.1
ROUTER_SOLICITED_OVERRIDE = 0xE000_0000  # RFC 4861, 4.4
NEIGHBOUR_SOLICITATION, NEIGHBOUR_ADVERTISEMENT = 135, 136
SOLICITED_NODES = "ff02::1:ff00:0/104"  # RFC 4291, 2.7.1
UNROUTED_HOP_LIMIT = 255  # any other came through a router: discarded (RFC 4861, 7.1.1)
FRESH_TTL = 64


def answering(in_port: int, mac: str, own: Address, learn: str | None, datapath: Datapath) -> Iterator[Flow]:
    """Answer for `own`. Packets that show the MACs of `learn` go to the controller too."""
    family = Family.of(own)
    if family is Family.IPV4:
        yield from _arp(in_port, mac, own, learn)
    else:
        yield from _discovery(in_port, mac, own, learn, datapath)
    yield _echo(family, in_port, mac, own)


def from_ourselves(in_port: int, own: Address) -> Iterator[Flow]:
    """Drop solicitations in the gateway's name: another host sent them."""
    if Family.of(own) is Family.IPV6:
        solicitation = {**_discovery_of(in_port), "icmpv6_type": NEIGHBOUR_SOLICITATION, "ipv6_src": str(own)}
        yield Flow(ENTRY, OURSELVES_PRIORITY, fields(**solicitation))


def _arp(in_port: int, mac: str, own: Address, learn: str | None) -> Iterator[Flow]:
    question: dict[str, Value] = {"in_port": in_port, "eth_type": ARP, "arp_op": ARP_REQUEST, "arp_tpa": str(own)}
    answer: tuple[Action, ...] = (
        Move("eth_src", "eth_dst"),
        SetField("eth_src", mac),
        SetField("arp_op", ARP_REPLY),
        Move("arp_sha", "arp_tha"),
        Move("arp_spa", "arp_tpa"),
        SetField("arp_sha", mac),
        SetField("arp_spa", str(own)),
        OutputInPort(),
    )
    yield Flow(ENTRY, ANSWER_PRIORITY, fields(**question), answer)
    if learn:
        yield Flow(ENTRY, LEARN_AND_ANSWER_PRIORITY, fields(**question, arp_spa=learn), (ToController(), *answer))
        announced = fields(in_port=in_port, eth_type=ARP, arp_spa=learn)
        yield Flow(ENTRY, LEARN_PRIORITY, announced, (ToController(),))


def _discovery(in_port: int, mac: str, own: Address, learn: str | None, datapath: Datapath) -> Iterator[Flow]:
    discovery = _discovery_of(in_port)
    solicitation: dict[str, Value] = {"icmpv6_type": NEIGHBOUR_SOLICITATION, "nw_ttl": UNROUTED_HOP_LIMIT}
    question = {**discovery, **solicitation, "ipv6_nd_target": str(own)}
    if datapath is Datapath.NETDEV:
        yield from _advertised(discovery, question, mac, own, shown=learn is not None)
    else:
        yield _probed({**question, "ipv6_dst": SOLICITED_NODES}, mac, own)
        yield Flow(ENTRY, ALONE_PRIORITY, fields(**question), (ToController(),))
    yield Flow(ENTRY, TO_APP_PRIORITY, fields(**question, ipv6_src="::"), (ToController(),))
    if learn:
        announced = fields(**discovery, icmpv6_type=NEIGHBOUR_ADVERTISEMENT, ipv6_nd_target=learn)
        yield Flow(ENTRY, LEARN_PRIORITY, announced, (ToController(),))


def _discovery_of(in_port: int) -> dict[str, Value]:
    return {"in_port": in_port, "eth_type": Family.IPV6.eth_type, "ip_proto": Family.IPV6.icmp_protocol}


def _advertised(
    discovery: Mapping[str, Value], question: Mapping[str, Value], mac: str, own: Address, *, shown: bool
) -> Iterator[Flow]:
    turned: tuple[Action, ...] = (
        Move("eth_src", "eth_dst"),
        SetField("eth_src", mac),
        Move("ipv6_src", "ipv6_dst"),
        SetField("ipv6_src", str(own)),
        SetField("icmpv6_type", NEIGHBOUR_ADVERTISEMENT),
    )
    first: tuple[Action, ...] = (ToController(), *turned) if shown else turned
    yield Flow(ENTRY, ANSWER_PRIORITY, fields(**question), first, goto=ADVERTISE)
    answer = {**discovery, "icmpv6_type": NEIGHBOUR_ADVERTISEMENT, "ipv6_nd_target": str(own)}
    completed: tuple[Action, ...] = (
        SetField("icmpv6_nd_options_type", TARGET_LINK_LAYER),
        SetField("icmpv6_nd_reserved", ROUTER_SOLICITED_OVERRIDE),
        SetField("ipv6_nd_tll", mac),
        OutputInPort(),
    )
    yield Flow(ADVERTISE, ANSWER_PRIORITY, fields(**answer), completed)


def _probed(question: Mapping[str, Value], mac: str, own: Address) -> Flow:
    turned: tuple[Action, ...] = (
        ToController(),
        Move("eth_src", "eth_dst"),
        SetField("eth_src", mac),
        Move("ipv6_src", "ipv6_nd_target"),
        Move("ipv6_src", "ipv6_dst"),
        SetField("ipv6_src", str(own)),
        SetField("ipv6_nd_sll", mac),
        OutputInPort(),
    )
    return Flow(ENTRY, ANSWER_PRIORITY, fields(**question), turned)


def _echo(family: Family, in_port: int, mac: str, own: Address) -> Flow:
    question: dict[str, Value] = {family.icmp_type: family.echo_request, family.destination: str(own)}
    match = fields(in_port=in_port, eth_dst=mac, eth_type=family.eth_type, ip_proto=family.icmp_protocol, **question)
    actions: tuple[Action, ...] = (
        Move("eth_src", "eth_dst"),
        SetField("eth_src", mac),
        Move(family.source, family.destination),
        SetField(family.source, str(own)),
        SetField(family.icmp_type, family.echo_reply),
        SetField("nw_ttl", FRESH_TTL),
        OutputInPort(),
    )
    return Flow(ENTRY, ECHO_PRIORITY, match, actions)


def _icmpv6(kind: int) -> dict[str, Value]:
    return {"eth_type": Family.IPV6.eth_type, "ip_proto": Family.IPV6.icmp_protocol, "icmpv6_type": kind}
