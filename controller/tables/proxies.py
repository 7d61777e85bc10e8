"""Flows that answer for a terminal when a neighbour of its subnet, behind another port of the bridge, asks for it.

The two believe to be on one link and are not: what they send each other is routed. So the gateway gives its own MAC
for the other's, as a proxy does (RFC 1027; RFC 4861, 7.2.8), with no controller alive.

    ENTRY      by port and subnet: the question becomes the first half of an answer
    NEIGHBOUR  by the address asked for: the other half, and back out of the port. On the address's own port nothing:
               there it speaks for itself, also when it asks whether it is alone with its address (RFC 5227)

So there is a flow for each port and two for each address, however many ask for however many. What responders.py says
of Open vSwitch's kernel datapath, and of duplicate address detection in IPv6, holds here as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.model import Address, Datapath, Family, Site, Subnet
from controller.program import Action, Flow, Move, OutputInPort, SetField, ToController, Value, fields
from controller.tables.responders import (
    ARP,
    ARP_REPLY,
    ARP_REQUEST,
    ENTRY,
    NEIGHBOUR_ADVERTISEMENT,
    NEIGHBOUR_SOLICITATION,
    SOLICITED_NODES,
    TARGET_LINK_LAYER,
    UNROUTED_HOP_LIMIT,
)
from controller.tables.served import divided

NEIGHBOUR = 4
TO_APP_PRIORITY, ASKED_PRIORITY, ALONE_PRIORITY = (
    36,
    35,
    34,
)  # ENTRY: below the answers for the gateway's own addresses, above learning
TOLD_PRIORITY = 25  # ENTRY: below learning, above forwarding
OWN_PORT_PRIORITY, ANSWER_PRIORITY = 20, 10  # NEIGHBOUR
SOLICITED = 0x4000_0000  # of no router, and not against the terminal's own word (RFC 4861, 4.4)


def subnet_answered(site: Site, port: str, target: Address) -> Subnet | None:
    """The subnet as whose proxy the gateway answers for `target` at this port."""
    for link in divided(site):
        if port in link.ports and any(each.place.address == target and each.place.port != port for each in link.places):
            return link.subnet
    return None


def asked(family: Family, in_port: int, mac: str, network: str, datapath: Datapath, *, learns: bool) -> Iterator[Flow]:
    """Questions that come in by a port for an address of a subnet; `learns`: the app is shown who asks."""
    shown = (ToController(),) if learns else ()
    if family is Family.IPV4:
        yield _asked_by_arp(in_port, mac, network, shown)
    else:
        yield from _solicited(in_port, mac, network, datapath, shown)


def answered(family: Family, address: str, own_port: int, datapath: Datapath) -> Iterator[Flow]:
    """The other half of every answer for this address."""
    if family is Family.IPV4:
        question, answer = _arp_answer(address)
    elif datapath is Datapath.NETDEV:
        question, answer = _advertisement(address)
    else:
        question, answer = _asked_back(address)
    yield Flow(NEIGHBOUR, ANSWER_PRIORITY, fields(**question), answer)
    yield Flow(NEIGHBOUR, OWN_PORT_PRIORITY, fields(**question, in_port=own_port))


def _asked_by_arp(in_port: int, mac: str, network: str, shown: tuple[Action, ...]) -> Flow:
    match = fields(in_port=in_port, eth_type=ARP, arp_op=ARP_REQUEST, arp_tpa=network)
    turned: tuple[Action, ...] = (
        Move("eth_src", "eth_dst"),
        SetField("eth_src", mac),
        SetField("arp_op", ARP_REPLY),
        Move("arp_sha", "arp_tha"),
        SetField("arp_sha", mac),
    )
    return Flow(ENTRY, ASKED_PRIORITY, match, (*shown, *turned), goto=NEIGHBOUR)


def _arp_answer(address: str) -> tuple[dict[str, Value], tuple[Action, ...]]:
    return {"eth_type": ARP, "arp_tpa": address}, (
        Move("arp_spa", "arp_tpa"),
        SetField("arp_spa", address),
        OutputInPort(),
    )


def _solicited(in_port: int, mac: str, network: str, datapath: Datapath, shown: tuple[Action, ...]) -> Iterator[Flow]:
    question = {**_discovery(NEIGHBOUR_SOLICITATION, network), "in_port": in_port, "nw_ttl": UNROUTED_HOP_LIMIT}
    turned: tuple[Action, ...] = (Move("eth_src", "eth_dst"), SetField("eth_src", mac))
    if datapath is Datapath.NETDEV:
        turned += (Move("ipv6_src", "ipv6_dst"), SetField("icmpv6_type", NEIGHBOUR_ADVERTISEMENT))
    else:
        shown = (ToController(),)
        # What is asked back in a neighbour's name is answered to the neighbour, who did not ask.
        told = {**_icmpv6(NEIGHBOUR_ADVERTISEMENT), "in_port": in_port}
        yield Flow(ENTRY, TOLD_PRIORITY, fields(**told))
        yield Flow(ENTRY, ALONE_PRIORITY, fields(**question), shown)
    yield Flow(ENTRY, TO_APP_PRIORITY, fields(**question, ipv6_src="::"), (ToController(),))
    if datapath is not Datapath.NETDEV:
        question["ipv6_dst"] = SOLICITED_NODES
    yield Flow(ENTRY, ASKED_PRIORITY, fields(**question), (*shown, *turned), goto=NEIGHBOUR)


def _advertisement(address: str) -> tuple[dict[str, Value], tuple[Action, ...]]:
    return _discovery(NEIGHBOUR_ADVERTISEMENT, address), (
        SetField("ipv6_src", address),
        SetField("icmpv6_nd_options_type", TARGET_LINK_LAYER),
        SetField("icmpv6_nd_reserved", SOLICITED),
        Move("eth_src", "ipv6_nd_tll"),
        OutputInPort(),
    )


def _asked_back(address: str) -> tuple[dict[str, Value], tuple[Action, ...]]:
    return _discovery(NEIGHBOUR_SOLICITATION, address), (
        Move("ipv6_src", "ipv6_nd_target"),
        Move("ipv6_src", "ipv6_dst"),
        SetField("ipv6_src", address),
        Move("eth_src", "ipv6_nd_sll"),
        OutputInPort(),
    )


def _discovery(kind: int, target: str) -> dict[str, Value]:
    return {**_icmpv6(kind), "ipv6_nd_target": target}


def _icmpv6(kind: int) -> dict[str, Value]:
    return {"eth_type": Family.IPV6.eth_type, "ip_proto": Family.IPV6.icmp_protocol, "icmpv6_type": kind}
