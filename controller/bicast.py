"""The heart: a site and what is known of it, compiled into the program of its switch.

    0 ENTRY   what comes in, by port: ARP is answered, neighbour discovery is shown to the app, a ping of the
              gateway is answered, and packets for the gateway's MAC go on if their source is the terminal's
    1 ROUTE   by destination: a terminal's packets go to its delivery group, from whatever side they come
    2 LEAVE   by terminal and class: to the group that knows which uplinks they leave by

Flows know the configuration and the ports' numbers. All that changes in a day - mode, active uplink, an
uplink's state, a learned MAC - is in groups, so that a change is one message for each group and no packet
finds the tables half made.

Pure: no OpenFlow library, no clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from controller import responders
from controller.groups import numbered
from controller.known import Known, Neighbour, Port
from controller.model import Family, Interface, Mode, Site, Subnet, Terminal, TerminalAddress, TrafficClass, Uplink
from controller.program import (
    Action,
    Bucket,
    DecTtl,
    Flow,
    Group,
    GroupKind,
    Output,
    OutputInPort,
    Program,
    SetField,
    ToGroup,
    Value,
    fields,
)
from controller.responders import ENTRY

ROUTE = 1
LEAVE = 2

TAGGED = "0x1000/0x1000"  # OFPVID_PRESENT: a VLAN is another network, nothing of it is forwarded or answered
TAGGED_PRIORITY = 100  # ENTRY: above everything
FORWARD_PRIORITY = 10  # ENTRY: below everything that responders.py takes
OWN_PRIORITY, BACK_PRIORITY, TERMINAL_PRIORITY, INSIDE_PRIORITY, UNROUTED_PRIORITY, OUTSIDE_PRIORITY = (
    50, 45, 40, 30, 20, 10,
)  # ROUTE  # fmt: skip
CLASS_PRIORITY, REST_PRIORITY = 20, 10  # LEAVE


def compile(site: Site, known: Known) -> Program:
    return _Compiler(site, known).program()


def remembered(site: Site, ports: Mapping[str, Port], groups: Mapping[int, Group]) -> dict[Neighbour, str]:
    """The MACs that a program in place shows to have been learned: what `compile` puts in, read back out."""
    ids = _group_ids(site)
    macs: dict[Neighbour, str] = {}
    numbers = {port.number: name for name, port in ports.items()}
    uplinks = {uplink.port: uplink for uplink in site.uplinks}
    for terminal, place in _places(site):
        for bucket in _buckets(groups, ids[_delivery(terminal, place)]):
            macs[place.port, place.address] = _written(bucket, "eth_dst")
        for traffic in site.classes:
            for bucket in _buckets(groups, ids[_leaving(terminal, place, traffic)]):
                uplink = uplinks.get(numbers.get(_sent_to(bucket), ""))
                hop = uplink.next_hop(Family.of(place.address)) if uplink else None
                if uplink and hop:
                    macs[uplink.port, hop.address] = _written(bucket, "eth_dst")
    return macs


def counting_ids(site: Site) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """By terminal, the groups through which it sends out of the site, and those through which it receives."""
    ids = _group_ids(site)
    return {
        terminal.name: (
            tuple(ids[_leaving(terminal, at, traffic)] for at in terminal.addresses for traffic in site.classes),
            tuple(
                ids[name]
                for at in terminal.addresses
                for name in (_delivery(terminal, at), _delivery_back(terminal, at))
                if name in ids
            ),
        )
        for terminal in site.terminals
    }


def _buckets(groups: Mapping[int, Group], group_id: int) -> tuple[Bucket, ...]:
    """Those of our own making: somebody may have written into our range by hand."""
    found = groups[group_id].buckets if group_id in groups else ()
    return tuple(bucket for bucket in found if _sent_to(bucket) and _written(bucket, "eth_dst"))


def _sent_to(bucket: Bucket) -> int:
    return next((action.port for action in bucket.actions if isinstance(action, Output)), 0)


def _written(bucket: Bucket, field: str) -> str:
    values = (action.value for action in bucket.actions if isinstance(action, SetField) and action.field == field)
    return str(next(values, ""))


def _places(site: Site) -> Iterator[tuple[Terminal, TerminalAddress]]:
    return ((terminal, place) for terminal in site.terminals for place in terminal.addresses)


def _delivery(terminal: Terminal, place: TerminalAddress) -> str:
    return f"{terminal.name} to {place.address}"


def _delivery_back(terminal: Terminal, place: TerminalAddress) -> str:
    return f"{terminal.name} to {place.address} from beside it"


def _beside(site: Site) -> Iterator[tuple[Terminal, TerminalAddress]]:
    """Places behind a port with somebody of another subnet: what they send each other goes back out of it."""
    terminals: dict[str, set[str]] = {}
    subnets: dict[str, set[str]] = {}
    for terminal, place in _places(site):
        terminals.setdefault(place.port, set()).add(terminal.name)
        subnets.setdefault(place.port, set()).add(place.subnet)
    shared = {port for port in subnets if len(terminals[port]) > 1 and len(subnets[port]) > 1}
    return ((terminal, place) for terminal, place in _places(site) if place.port in shared)


def _leaving(terminal: Terminal, place: TerminalAddress, traffic: TrafficClass) -> str:
    return f"{terminal.name} {traffic.name} from {place.address}"


def _group_ids(site: Site) -> dict[str, int]:
    through = chain.from_iterable(
        (_delivery(terminal, place), *(_leaving(terminal, place, traffic) for traffic in site.classes))
        for terminal, place in _places(site)
    )
    return numbered((*through, *(_delivery_back(terminal, place) for terminal, place in _beside(site))))


@dataclass(frozen=True, slots=True)
class Path:
    """An uplink that can carry a family: its port is there and its next hop's MAC is known."""

    uplink: Uplink
    up: bool
    bucket: Bucket


class _Compiler:
    """One compilation: what is looked up for every terminal is looked up once."""

    def __init__(self, site: Site, known: Known) -> None:
        self._site = site
        self._wanted = known.wanted
        self._ports = known.observed.ports
        self._macs = known.observed.macs
        self._ids = _group_ids(site)
        self._paths = {family: tuple(self._usable(family)) for family in Family}

    def program(self) -> Program:
        return Program.of(flows=self._flows(), groups=self._groups())

    # Where things are

    def _usable(self, family: Family) -> Iterator[Path]:
        for uplink in self._site.uplinks:
            port, hop = self._ports.get(uplink.port), uplink.next_hop(family)
            mac = hop and (hop.mac or self._macs.get((uplink.port, hop.address)))
            if port and mac:
                yield Path(uplink, port.up, Bucket(_towards(uplink.mac or port.mac, mac, port)))

    def _gateway_mac(self, subnet: Subnet, port: Port) -> str:
        return subnet.mac or port.mac

    # Groups

    def _groups(self) -> Iterator[Group]:
        for terminal, place in _places(self._site):
            yield self._delivery_group(terminal, place)
            for traffic in self._site.classes:
                yield self._leaving_group(terminal, place, traffic)
        for terminal, place in _beside(self._site):
            yield self._delivery_back_group(terminal, place)

    def _delivery_back_group(self, terminal: Terminal, place: TerminalAddress) -> Group:
        """A port is not sent to by its number what came in by it (OpenFlow 1.3.5, section 7.2.5)."""
        there, name = self._delivery_group(terminal, place), _delivery_back(terminal, place)
        back = tuple(Bucket((*bucket.actions[:-1], OutputInPort())) for bucket in there.buckets)
        return Group(self._ids[name], GroupKind.ALL, back, name)

    def _delivery_group(self, terminal: Terminal, place: TerminalAddress) -> Group:
        name = _delivery(terminal, place)
        port = self._ports.get(place.port)
        mac = place.mac or self._macs.get((place.port, place.address))
        buckets: tuple[Bucket, ...] = ()
        if port and mac:
            gateway_mac = self._gateway_mac(self._site.subnet(place.subnet), port)
            buckets = (Bucket(_towards(gateway_mac, mac, port)),)
        return Group(self._ids[name], GroupKind.ALL, buckets, name)

    def _leaving_group(self, terminal: Terminal, place: TerminalAddress, traffic: TrafficClass) -> Group:
        name = _leaving(terminal, place, traffic)
        paths = self._paths[Family.of(place.address)]
        mode = self._wanted.mode(terminal)
        if mode is Mode.OFF:
            own = self._site.subnet(place.subnet).uplink or terminal.default_uplink
            buckets = tuple(path.bucket for path in paths if path.uplink.name == own and path.up)
            return Group(self._ids[name], GroupKind.ALL, buckets, name)
        if mode is Mode.BICAST and traffic == self._site.bicast:
            return Group(self._ids[name], GroupKind.ALL, tuple(path.bucket for path in paths if path.up), name)
        # A port that is down keeps its bucket here: the switch itself passes over it, and takes it again
        # when it is back, with no controller alive.
        active = self._wanted.active_uplink(self._site, terminal)
        in_order = sorted(paths, key=lambda path: path.uplink.name != active)
        buckets = tuple(Bucket(path.bucket.actions, watch_port=_sent_to(path.bucket)) for path in in_order)
        return Group(self._ids[name], GroupKind.FAST_FAILOVER, buckets, name)

    # Flows

    def _flows(self) -> Iterator[Flow]:
        yield Flow(ENTRY, TAGGED_PRIORITY, fields(vlan_vid=TAGGED))
        for uplink in self._site.uplinks:
            if port := self._ports.get(uplink.port):
                yield from self._uplink_entry(uplink, port)
        for name in self._site.inside_ports:
            if port := self._ports.get(name):
                yield from self._inside_entry(name, port)
        yield from self._route()
        for terminal, place in _places(self._site):
            if port := self._ports.get(place.port):
                yield from self._leave(terminal, place, port)

    def _uplink_entry(self, uplink: Uplink, port: Port) -> Iterator[Flow]:
        mac = uplink.mac or port.mac
        for own in uplink.addresses:
            hop = uplink.next_hop(Family.of(own))
            learn = str(hop.address) if hop and not hop.mac else None
            yield from responders.answering(port.number, mac, own.ip, learn, self._site.datapath)
        for family in Family:
            match = fields(in_port=port.number, eth_dst=mac, eth_type=family.eth_type)
            yield Flow(ENTRY, FORWARD_PRIORITY, match, goto=ROUTE)

    def _inside_entry(self, name: str, port: Port) -> Iterator[Flow]:
        here = [place for _, place in _places(self._site) if place.port == name]
        for subnet in self._site.subnets:
            places = [place for place in here if place.subnet == subnet.name]
            if not places:
                continue
            mac = self._gateway_mac(subnet, port)
            for own in subnet.gateways:
                learns = any(not place.mac for place in places if Family.of(place.address) is Family.of(own))
                learn = _written_network(own) if learns else None
                yield from responders.answering(port.number, mac, own.ip, learn, self._site.datapath)
            for place in places:
                family = Family.of(place.address)
                match = _by_source(family, port, place, eth_dst=mac)
                yield Flow(ENTRY, FORWARD_PRIORITY, match, goto=ROUTE)

    def _route(self) -> Iterator[Flow]:
        for terminal, place in _places(self._site):
            actions = (DecTtl(), ToGroup(self._ids[_delivery(terminal, place)]))
            yield Flow(ROUTE, TERMINAL_PRIORITY, _to(Family.of(place.address), str(place.address)), actions)
        for terminal, place in _beside(self._site):
            if port := self._ports.get(place.port):
                to = _to(Family.of(place.address), str(place.address), in_port=port.number)
                yield Flow(ROUTE, BACK_PRIORITY, to, (DecTtl(), ToGroup(self._ids[_delivery_back(terminal, place)])))
        for own in chain.from_iterable(
            (*(uplink.addresses for uplink in self._site.uplinks), *(subnet.gateways for subnet in self._site.subnets))
        ):
            yield Flow(ROUTE, OWN_PRIORITY, _to(Family.of(own), str(own.ip)))
        for own in chain.from_iterable(subnet.gateways for subnet in self._site.subnets):
            yield Flow(ROUTE, INSIDE_PRIORITY, _to(Family.of(own), _written_network(own)))
        for family in Family:
            for network in family.never_routed:
                yield Flow(ROUTE, UNROUTED_PRIORITY, _to(family, network))
        yield Flow(ROUTE, OUTSIDE_PRIORITY, fields(), goto=LEAVE)

    def _leave(self, terminal: Terminal, place: TerminalAddress, port: Port) -> Iterator[Flow]:
        family = Family.of(place.address)
        for traffic in self._site.classes:
            actions = (DecTtl(), ToGroup(self._ids[_leaving(terminal, place, traffic)]))
            for protocol in traffic.protocols:
                match = _by_source(family, port, place, ip_proto=protocol.number(family))
                yield Flow(LEAVE, CLASS_PRIORITY, match, actions)
            if not traffic.protocols:
                yield Flow(LEAVE, REST_PRIORITY, _by_source(family, port, place), actions)


def _by_source(family: Family, port: Port, place: TerminalAddress, **more: Value) -> tuple[tuple[str, Value], ...]:
    return fields(in_port=port.number, eth_type=family.eth_type, **{family.source: str(place.address)}, **more)


def _to(family: Family, network: str, **more: Value) -> tuple[tuple[str, Value], ...]:
    return fields(eth_type=family.eth_type, **{family.destination: network}, **more)


def _written_network(own: Interface) -> str:
    """A switch gives the network of one address back as the address."""
    return str(own.ip) if own.network.num_addresses == 1 else str(own.network)


def _towards(source_mac: str, destination_mac: str, port: Port) -> tuple[Action, ...]:
    return (SetField("eth_src", source_mac), SetField("eth_dst", destination_mac), Output(port.number))
