# SPDX-License-Identifier: Apache-2.0
"""Proxy replies between terminals of one subnet behind different ports (RFC 1027; RFC 4861, 7.2.8).

ENTRY turns the question into the first half of an answer, by port and subnet. NEIGHBOUR adds the second half, by the
address asked for. The address's own port gets no reply: the terminal answers there, also in duplicate address detection
(RFC 5227).

Such terminals believe that they share a link. The gateway replies with its own MAC and routes, even with no controller
alive. One flow per port and two per address are enough.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.model.config import Datapath, Site, Subnet
from controller.model.traffic import Address, Family
from controller.program.groups import divided
from controller.program.program import Action, Flow, Move, OutputInPort, SetField, ToController, Value, fields
from controller.program.responders import (
    ARP,
    ARP_REPLY,
    ARP_REQUEST,
    NEIGHBOUR_ADVERTISEMENT,
    NEIGHBOUR_SOLICITATION,
    SOLICITED_NODES,
    TARGET_LINK_LAYER,
    UNROUTED_HOP_LIMIT,
    _icmpv6,
)
from controller.program.tables import (
    ENTRY,
    NEIGHBOUR,
    OWN_PORT_PRIORITY,
    PROXY_ALONE_PRIORITY,
    PROXY_ANNOUNCED_PRIORITY,
    PROXY_ANSWER_PRIORITY,
    PROXY_ASKED_PRIORITY,
    PROXY_TO_APP_PRIORITY,
)

SOLICITED = 0x4000_0000  # from a host, without override (RFC 4861, 4.4)


def subnet_answered(site: Site, port: str, target: Address) -> Subnet | None:
    """Return the subnet for which the gateway answers for `target` at this port, or None."""
    for link in divided(site):
        if port in link.ports and any(each.place.address == target and each.place.port != port for each in link.places):
            return link.subnet
    return None


def proxy_asked(
    family: Family, in_port: int, mac: str, network: str, datapath: Datapath, *, learns: bool
) -> Iterator[Flow]:
    """Yield first halves at a port. `learns`: the controller sees the questions too."""
    shown = (ToController(),) if learns else ()
    if family is Family.IPV4:
        yield _asked_by_arp(in_port, mac, network, shown)
    else:
        yield from _solicited(in_port, mac, network, datapath, shown)


def proxy_answered(family: Family, address: str, own_port: int, datapath: Datapath) -> Iterator[Flow]:
    if family is Family.IPV4:
        question, answer = _arp_answer(address)
    elif datapath is Datapath.NETDEV:
        question, answer = _advertisement(address)
    else:
        question, answer = _proxy_asked_back(address)
    yield Flow(NEIGHBOUR, PROXY_ANSWER_PRIORITY, fields(**question), answer)
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
    return Flow(ENTRY, PROXY_ASKED_PRIORITY, match, (*shown, *turned), goto=NEIGHBOUR)


def _arp_answer(address: str) -> tuple[dict[str, Value], tuple[Action, ...]]:
    return {"eth_type": ARP, "arp_tpa": address}, (
        Move("arp_spa", "arp_tpa"),
        SetField("arp_spa", address),
        OutputInPort(),
    )


def _solicited(in_port: int, mac: str, network: str, datapath: Datapath, shown: tuple[Action, ...]) -> Iterator[Flow]:
    question = {**_proxy_discovery(NEIGHBOUR_SOLICITATION, network), "in_port": in_port, "nw_ttl": UNROUTED_HOP_LIMIT}
    turned: tuple[Action, ...] = (Move("eth_src", "eth_dst"), SetField("eth_src", mac))
    if datapath is Datapath.NETDEV:
        turned += (Move("ipv6_src", "ipv6_dst"), SetField("icmpv6_type", NEIGHBOUR_ADVERTISEMENT))
    else:
        shown = (ToController(),)
        # A solicitation in a neighbour's name causes an unrequested advertisement to it.
        announced = {**_icmpv6(NEIGHBOUR_ADVERTISEMENT), "in_port": in_port}
        yield Flow(ENTRY, PROXY_ANNOUNCED_PRIORITY, fields(**announced))
        yield Flow(ENTRY, PROXY_ALONE_PRIORITY, fields(**question), shown)
    yield Flow(ENTRY, PROXY_TO_APP_PRIORITY, fields(**question, ipv6_src="::"), (ToController(),))
    if datapath is not Datapath.NETDEV:
        question["ipv6_dst"] = SOLICITED_NODES
    yield Flow(ENTRY, PROXY_ASKED_PRIORITY, fields(**question), (*shown, *turned), goto=NEIGHBOUR)


def _advertisement(address: str) -> tuple[dict[str, Value], tuple[Action, ...]]:
    return _proxy_discovery(NEIGHBOUR_ADVERTISEMENT, address), (
        SetField("ipv6_src", address),
        SetField("icmpv6_nd_options_type", TARGET_LINK_LAYER),
        SetField("icmpv6_nd_reserved", SOLICITED),
        Move("eth_src", "ipv6_nd_tll"),
        OutputInPort(),
    )


def _proxy_asked_back(address: str) -> tuple[dict[str, Value], tuple[Action, ...]]:
    return _proxy_discovery(NEIGHBOUR_SOLICITATION, address), (
        Move("ipv6_src", "ipv6_nd_target"),
        Move("ipv6_src", "ipv6_dst"),
        SetField("ipv6_src", address),
        Move("eth_src", "ipv6_nd_sll"),
        OutputInPort(),
    )


def _proxy_discovery(kind: int, target: str) -> dict[str, Value]:
    return {**_icmpv6(kind), "ipv6_nd_target": target}
