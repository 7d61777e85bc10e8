# SPDX-License-Identifier: Apache-2.0
"""The compiler: it turns a site and its known state into the program of the site's switch. tables.py lists the tables.

ENTRY passes a packet for the gateway's MAC on if the source is the terminal's, or comes from outside and is no inside
address. In LEAVE, packets for a terminal of the mirrored site leave as that terminal's packets arrive.

Flows depend on the configuration and the ports' numbers alone. Frequent changes are in groups (mode, active uplink, an
uplink's state, a learned MAC) and in meters (the rest of a budget). So a change is one message for each group, and no
packet meets half a change.

The compiler is pure: no OpenFlow library and no clock. It caches what did not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import chain, product

from controller.model.config import Site, Subnet, Terminal
from controller.model.in_force import Known
from controller.model.observed import Port
from controller.model.traffic import ASKED_FROM_PORT, DNS_PORT, Address, Family, Protocol, TrafficClass
from controller.model.uplink import Uplink
from controller.program import antispoofing, interception, internet_exit, metering, neighbour_proxy, responders
from controller.program.groups import (
    MOST_KEPT,
    MirroredAddress,
    Served,
    UsableUplink,
    answered,
    divided,
    leaving,
    paths,
    served,
)
from controller.program.matching import Direction, matches
from controller.program.program import (
    Action,
    Bucket,
    DecTtl,
    Fields,
    Flow,
    FlowKey,
    Group,
    GroupKind,
    Output,
    OutputInPort,
    Program,
    SetField,
    ToController,
    ToGroup,
    Value,
    fields,
    written,
)
from controller.program.tables import (
    BACK_PRIORITY,
    ENTRY,
    FORWARD_PRIORITY,
    INSIDE_PRIORITY,
    LAN_FORWARD_PRIORITY,
    LAN_PRIORITIES,
    LEAVE,
    LEAVE_PRIORITIES,
    OUTSIDE_PRIORITY,
    OWN_PRIORITY,
    REACHED_PRIORITY,
    ROUTE,
    TAGGED_PRIORITY,
    TERMINAL_PRIORITY,
    UNROUTED_PRIORITY,
    UPLINK_FORGED_PRIORITY,
)

TAGGED = "0x1000/0x1000"  # OFPVID_PRESENT: VLAN-tagged packets are neither forwarded nor answered

Wire = tuple[str, int, str]  # name, number and MAC: all that flows depend on


def compile(site: Site, known: Known) -> Program:
    ports = known.observed.ports
    there = (
        name for name in site.ports if name in ports and (ports[name].up or not interception.is_host_port(site, name))
    )
    wires = tuple((name, ports[name].number, ports[name].mac) for name in there)
    groups = _Groups(site, known).groups()
    meters = {meter.meter_id: meter for meter in metering.meters(site, known.rates)}
    return Program(_flows(site, wires), {group.group_id: group for group in groups}, meters)


@lru_cache(maxsize=256)
def _flows(site: Site, wires: tuple[Wire, ...]) -> Mapping[FlowKey, Flow]:
    return {flow.key: flow for flow in _Flows(site, wires).flows()}


class _Groups:
    """The groups: the present destinations of packets."""

    def __init__(self, site: Site, known: Known) -> None:
        self._site = site
        self._in_force = known.in_force
        self._observed = known.observed
        self._screened = known.screened
        self._barred = known.in_force.decisions.barred.get(site.home, frozenset())
        self._through = metering.through(site)
        self._paths = {family: paths(*self._usable(family)) for family in Family}

    def groups(self) -> Iterator[Group]:
        for each in served(self._site):
            own = each.subnet.uplink or each.terminal.default_uplink
            port = self._observed.ports.get(each.place.port)
            yield from _delivering(each, port, self._observed.mac_of(each.place))
            yield from self._leaving(each, each.terminal, own, self._site.named)
        for back in answered(self._site):
            yield from self._leaving(back, back.returned.terminal, back.returned.uplink, self._site.named_there)

    def _leaving(
        self, each: Served | MirroredAddress, terminal: Terminal, own: str, classes: tuple[TrafficClass, ...]
    ) -> tuple[Group, ...]:
        in_force, site = self._in_force, self._site
        its, active = in_force.of_classes(site, terminal, classes), in_force.active_uplink(site, terminal)
        if isinstance(each, Served) and each.place.by_relay and in_force.keeps_apart(site, terminal):
            active = own
        return leaving(each, (*its, its[-1].of_rest), own, active, self._paths[each.family])

    def _usable(self, family: Family) -> Iterator[UsableUplink]:
        for uplink in self._site.uplinks:
            port, hop = self._observed.ports.get(uplink.port), uplink.next_hop(family)
            mac = hop and (hop.mac or self._observed.macs.get((uplink.port, hop.address)))
            if port and mac:
                towards, name = _set_macs(uplink.mac or port.mac, mac), uplink.name
                actions = copied = (*towards, Output(port.number))
                if name in self._through:
                    copied = (*towards, self._through[name])
                barred = name in self._barred
                yield UsableUplink(uplink, port.up, name in self._screened, port.number, actions, copied, barred)


@lru_cache(maxsize=MOST_KEPT)
def _delivering(each: Served, port: Port | None, mac: str | None) -> tuple[Group, ...]:
    """Return groups of deliveries. Output by number to the ingress port is not allowed (OpenFlow 1.3.5, 7.2.5)."""
    there: tuple[Bucket, ...] = ()
    back: tuple[Bucket, ...] = ()
    if port and mac:
        rewritten = _set_macs(each.subnet.mac or port.mac, mac)
        there, back = (Bucket((*rewritten, Output(port.number))),), (Bucket((*rewritten, OutputInPort())),)
    named = [(each.delivery, there), *([(each.back, back)] if each.back else [])]
    return tuple(Group(name.group_id, GroupKind.ALL, buckets, name.label) for name, buckets in named)


class _Flows:
    """The flows, which lead packets to groups."""

    def __init__(self, site: Site, wires: tuple[Wire, ...]) -> None:
        self._site = site
        self._wires = {name: Port(number, mac, up=True) for name, number, mac in wires}

    def flows(self) -> Iterator[Flow]:
        for wire in self._wires.values():
            yield Flow(ENTRY, TAGGED_PRIORITY, fields(in_port=wire.number, vlan_vid=TAGGED))
        for uplink in self._site.uplinks:
            if port := self._wires.get(uplink.port):
                yield from self._uplink_entry(uplink, port)
        for name in self._site.inside_ports:
            if port := self._wires.get(name):
                yield from self._inside_entry(name, port)
        yield from self._between_ports()
        yield from self._route()
        yield from self._relayed()
        for each in served(self._site):
            if port := self._wires.get(each.place.port):
                yield from _leave(each, Direction.SENT, partial(_by_source, each, port), self._site.named)
        inside = [self._wires[name] for name in self._site.inside_ports if name in self._wires]
        for back, port in product(answered(self._site), inside):  # packets from an uplink never leave by one
            to = partial(_match_to, back.family, back.address, in_port=port.number)
            yield from _leave(back, Direction.RECEIVED, to, self._site.named_there)
        yield from metering.flows(self._site, self._wires)
        yield from internet_exit.leading_on(self._site, [port.number for port in self._uplinks()])

    def _uplinks(self) -> Iterator[Port]:
        return (self._wires[each.port] for each in self._site.uplinks if each.port in self._wires)

    def _uplink_entry(self, uplink: Uplink, port: Port) -> Iterator[Flow]:
        mac = uplink.mac or port.mac
        for own in uplink.addresses:
            hop = uplink.next_hop(Family.of(own))
            learn = str(hop.address) if hop and (not hop.mac or self._site.other_end) else None  # or to see it alive
            yield from responders.answering(port.number, mac, own.ip, learn, self._site.datapath)
        for target in uplink.reach:
            source = uplink.address(Family.of(target))
            assert source is not None  # ensured by edges/config/reach.py
            for match in _far_answers(port.number, mac, target, source.ip):
                yield Flow(ENTRY, REACHED_PRIORITY, match, (ToController(),))
        for address in antispoofing.own(self._site):
            yield from responders.from_ourselves(port.number, address)
        for family in Family:
            match = fields(in_port=port.number, eth_dst=mac, eth_type=family.eth_type)
            yield Flow(ENTRY, FORWARD_PRIORITY, match, goto=ROUTE)
            for network in antispoofing.uplink_forged(self._site, family):
                claimed = fields(in_port=port.number, eth_type=family.eth_type, **{family.source: network})
                yield Flow(ENTRY, UPLINK_FORGED_PRIORITY, claimed)

    def _inside_entry(self, name: str, port: Port) -> Iterator[Flow]:
        here = [each for each in served(self._site) if each.place.port == name]
        for subnet in {each.subnet.name: each.subnet for each in here if not each.subnet.lan}.values():
            mac = _gateway_mac(subnet, port)
            for own in subnet.gateways:
                beside = [each for each in here if each.subnet is subnet and each.family is Family.of(own)]
                learn = written(own.network) if _any_learned(beside) else None
                yield from responders.answering(port.number, mac, own.ip, learn, self._site.datapath)
                yield from responders.from_ourselves(port.number, own.ip)
        for each in here:
            mac = _gateway_mac(each.subnet, port)
            match = _by_source(each, port, eth_dst=mac, **antispoofing.written_mac(each.place))
            yield Flow(ENTRY, LAN_FORWARD_PRIORITY if each.network else FORWARD_PRIORITY, match, goto=ROUTE)
            if each.terminal.exit:
                yield from internet_exit.entering(self._site, each, port.number, mac)

    def _between_ports(self) -> Iterator[Flow]:
        datapath = self._site.datapath
        for link in divided(self._site):
            network = written(link.gateway.network)
            for name in link.ports:
                if port := self._wires.get(name):
                    learns = _any_learned([each for each in link.places if each.place.port == name])
                    mac = _gateway_mac(link.subnet, port)
                    yield from neighbour_proxy.proxy_asked(
                        link.family, port.number, mac, network, datapath, learns=learns
                    )
            for each in link.places:
                if port := self._wires.get(each.place.port):
                    yield from neighbour_proxy.proxy_answered(link.family, each.address, port.number, datapath)

    def _route(self) -> Iterator[Flow]:
        for each in served(self._site):
            delivered = (DecTtl(), ToGroup(each.delivery.group_id))
            priority = INSIDE_PRIORITY if each.network else TERMINAL_PRIORITY
            yield Flow(ROUTE, priority, _match_to(each.family, each.address), delivered)
            if each.back and (port := self._wires.get(each.place.port)):
                to = _match_to(each.family, each.address, in_port=port.number)
                yield Flow(ROUTE, BACK_PRIORITY, to, (DecTtl(), ToGroup(each.back.group_id)))
        outside = list(chain.from_iterable(uplink.addresses for uplink in self._site.uplinks))
        inside = list(chain.from_iterable(subnet.gateways for subnet in self._site.subnets if not subnet.lan))
        for address in antispoofing.own(self._site):
            yield Flow(ROUTE, OWN_PRIORITY, _match_to(Family.of(address), str(address)))
        for own in inside:
            yield Flow(ROUTE, INSIDE_PRIORITY, _match_to(Family.of(own), written(own.network)))
        for own in outside:
            if own.version == 4 and own.network.num_addresses > 2:  # RFC 2644: no directed broadcasts
                yield Flow(ROUTE, UNROUTED_PRIORITY, _match_to(Family.IPV4, str(own.network.broadcast_address)))
        for family in Family:
            for network in family.never_routed:
                yield Flow(ROUTE, UNROUTED_PRIORITY, _match_to(family, network))
        yield Flow(ROUTE, OUTSIDE_PRIORITY, fields(), goto=LEAVE)

    def _relayed(self) -> Iterator[Flow]:
        yield from interception.taking(self._site, self._wires)
        if self._site.relaying and (host := self._wires.get(self._site.relaying.port)):
            yield from interception.entering(self._site, host.number)
            for each in interception.taken(self._site):
                yield from _leave(each, Direction.SENT, partial(_by_source, each, host), self._site.named)


def _leave(
    each: Served | MirroredAddress, direction: Direction, match: Callable[..., Fields], named: tuple[TrafficClass, ...]
) -> Iterator[Flow]:
    of_named, of_bicast, of_rest = (LAN_PRIORITIES if each.network else LEAVE_PRIORITIES)[direction]
    for traffic, name in each.leaving:
        priority = of_named if traffic in named else of_bicast if traffic.protocols else of_rest
        for criteria in matches(traffic, each.family, direction):
            yield Flow(LEAVE, priority, match(**criteria), (DecTtl(), ToGroup(name.group_id)))


def _gateway_mac(subnet: Subnet, port: Port) -> str:
    return subnet.mac or port.mac


def _any_learned(places: list[Served]) -> bool:
    return any(not each.place.mac for each in places)


def _by_source(each: Served, port: Port, **more: Value) -> Fields:
    family = each.family
    return fields(in_port=port.number, eth_type=family.eth_type, **{family.source: each.address}, **more)


def _match_to(family: Family, network: str, **more: Value) -> Fields:
    return fields(eth_type=family.eth_type, **{family.destination: network}, **more)


def _far_answers(in_port: int, mac: str, source: Address, own: Address) -> Iterator[Fields]:
    family = Family.of(source)
    answer = partial(_match_to, family, written(own), in_port=in_port, eth_dst=mac, **{family.source: written(source)})
    yield answer(ip_proto=family.icmp_protocol, **{family.icmp_type: family.echo_reply})
    yield answer(ip_proto=Protocol.UDP.number(family), udp_src=DNS_PORT, udp_dst=ASKED_FROM_PORT)


def _set_macs(source_mac: str, destination_mac: str) -> tuple[Action, ...]:
    """Return the actions that set both MAC addresses."""
    return (SetField("eth_src", source_mac), SetField("eth_dst", destination_mac))
