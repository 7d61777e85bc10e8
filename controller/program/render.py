# SPDX-License-Identifier: Apache-2.0
"""Programs in the syntax of ovs-ofctl, for a bridge without a controller and for people.

Ports are written by name, so a file fits every bridge with these names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.model.config import Site
from controller.model.in_force import Known
from controller.model.observed import Observed, Port
from controller.model.uplink import UNLIMITED
from controller.program.diff import (
    AddFlow,
    AddGroup,
    AddMeter,
    Change,
    DeleteFlow,
    DeleteGroup,
    DeleteMeter,
    ModifyFlow,
    ModifyGroup,
    ModifyMeter,
)
from controller.program.program import (
    COOKIE,
    Action,
    Bucket,
    DecTtl,
    Flow,
    FlowKey,
    Group,
    GroupKind,
    Meter,
    Move,
    Output,
    OutputInPort,
    Program,
    Resubmit,
    SetField,
    ToController,
    ToGroup,
    Value,
)

# Names in ovs-ofctl that differ, and the registers that `move` needs.
NAMES = {
    "ipv4_src": "ip_src",
    "ipv4_dst": "ip_dst",
    "icmpv4_type": "icmp_type",
    "ipv6_nd_target": "nd_target",
    "ipv6_nd_sll": "nd_sll",
    "ipv6_nd_tll": "nd_tll",
    "icmpv6_nd_options_type": "nd_options_type",
    "icmpv6_nd_reserved": "nd_reserved",
}
REGISTERS = {
    "eth_src": "NXM_OF_ETH_SRC[]",
    "eth_dst": "NXM_OF_ETH_DST[]",
    "arp_sha": "NXM_NX_ARP_SHA[]",
    "arp_tha": "NXM_NX_ARP_THA[]",
    "arp_spa": "NXM_OF_ARP_SPA[]",
    "arp_tpa": "NXM_OF_ARP_TPA[]",
    "ipv4_src": "NXM_OF_IP_SRC[]",
    "ipv4_dst": "NXM_OF_IP_DST[]",
    "ipv6_src": "NXM_NX_IPV6_SRC[]",
    "ipv6_dst": "NXM_NX_IPV6_DST[]",
    "ipv6_nd_target": "NXM_NX_ND_TARGET[]",
    "ipv6_nd_sll": "NXM_NX_ND_SLL[]",
    "ipv6_nd_tll": "NXM_NX_ND_TLL[]",
}


class Unwritten(Exception):
    """A site that needs a controller: to learn MACs, count copies or relay."""


def known_from_file(site: Site) -> Known:
    """Return the state from the file alone, with ports numbered in its order."""
    if site.relaying is not None:
        raise Unwritten(f"site {site.name}: relaying needs a controller and an agent; remove `relaying`")
    if missing := list(_missing_macs(site)):
        raise Unwritten(
            f"site {site.name}: a switch without a controller learns no addresses; add {'; '.join(missing)}"
        )
    for uplink in site.uplinks:
        if uplink.limits != UNLIMITED:
            limits = f"site {site.name}: only a controller can enforce the budget of uplink {uplink.name}"
            raise Unwritten(f"{limits}; remove `budget_bytes_per_day` and `max_share`")
    names = [*(uplink.port for uplink in site.uplinks), *site.inside_ports]
    return Known(observed=Observed({name: Port(number, "", True) for number, name in enumerate(names, 1)}))


def _missing_macs(site: Site) -> Iterator[str]:
    for uplink in site.uplinks:
        if not uplink.mac:
            yield f"the `mac` of uplink {uplink.name}"
        if hops := [str(hop.address) for hop in uplink.next_hops if not hop.mac]:
            yield f"the `mac` of next hop {' and '.join(hops)} of uplink {uplink.name}"
    for subnet in site.subnets:
        if not subnet.mac:
            yield f"the `mac` of subnet {subnet.name}"
    for terminal in site.terminals:
        if places := [str(place.address) for place in terminal.addresses if not place.mac]:
            yield f"the `mac` of {' and '.join(places)} of terminal {terminal.name}"


class Renderer:
    """A writer of flows and groups with a bridge's port names."""

    def __init__(self, ports: Mapping[str, Port] | None = None) -> None:
        self._names = {port.number: name for name, port in (ports or {}).items()}

    def flows(self, program: Program) -> Iterator[str]:
        ordered = sorted(program.flows.values(), key=lambda flow: (flow.table, -flow.priority, str(flow.match)))
        return (self.flow(flow) for flow in ordered)

    def groups(self, program: Program) -> Iterator[str]:
        for group in sorted(program.groups.values(), key=lambda group: group.label):
            yield f"# {group.label}"
            yield self.group(group)

    def flow(self, flow: Flow) -> str:
        return f"cookie={COOKIE:#x},{self.place(flow.key)} actions={self._does(flow)}"

    def place(self, key: FlowKey) -> str:
        table, priority, match = key
        return f"table={table},priority={priority}" + "".join(f",{self._field(*each)}" for each in match)

    def group(self, group: Group) -> str:
        kind = "ff" if group.kind is GroupKind.FAST_FAILOVER else group.kind.value
        return f"group_id={group.group_id},type={kind}" + "".join(
            f",bucket={self._bucket(bucket)}" for bucket in group.buckets
        )

    def meter(self, meter: Meter) -> str:
        return (
            f"meter={meter.meter_id},kbps,burst,bands=type=drop,rate={meter.rate_kbps},burst_size={meter.burst_kbits}"
        )

    def _bucket(self, bucket: Bucket) -> str:
        watched = f"watch_port:{self._port(bucket.watch_port)}," if bucket.watch_port is not None else ""
        return f"{watched}actions={self._actions(bucket.actions)}"

    def _does(self, flow: Flow) -> str:
        parts = [
            *([f"meter:{flow.meter}"] if flow.meter is not None else []),
            *([self._actions(flow.actions)] if flow.actions else []),
            *([f"goto_table:{flow.goto}"] if flow.goto is not None else []),
        ]
        return ",".join(parts) or "drop"

    def _actions(self, actions: tuple[Action, ...]) -> str:
        return ",".join(self._action(action) for action in actions)

    def _action(self, action: Action) -> str:
        match action:
            case SetField(name, value):
                return f"set_field:{value}->{NAMES.get(name, name)}"
            case Move(source, destination):
                return f"move:{_register(source)}->{_register(destination)}"
            case DecTtl():
                return "dec_ttl"
            case Output(port):
                return f"output:{self._port(port)}"
            case OutputInPort():
                return "in_port"
            case ToController():
                return "controller:65535"
            case ToGroup(group_id):
                return f"group:{group_id}"
            case Resubmit(table):
                return f"resubmit(,{table})"

    def _field(self, name: str, value: Value) -> str:
        if name == "in_port" and isinstance(value, int):
            return f"in_port={self._port(value)}"
        if name == "eth_type" and isinstance(value, int):
            return f"eth_type={value:#06x}"
        return f"{NAMES.get(name, name)}={value}"

    def _port(self, number: int) -> str:
        return f'"{self._names[number]}"' if number in self._names else str(number)


def _register(name: str) -> str:
    return REGISTERS.get(name, f"{name}[]")  # a foreign flow may move any field


def describe(change: Change, ports: Mapping[str, Port]) -> str:
    render = Renderer(ports)
    match change:
        case AddFlow(flow):
            return f"to add the flow {render.flow(flow)}"
        case ModifyFlow(flow):
            return f"to modify the flow {render.flow(flow)}"
        case DeleteFlow(flow):
            return f"to delete the flow {render.flow(flow)}"
        case AddGroup(group):
            return f"to add the group of {group.label}: {render.group(group)}"
        case ModifyGroup(group):
            return f"to modify the group of {group.label}: {render.group(group)}"
        case DeleteGroup(group_id):
            return f"to delete the group {group_id}"
        case AddMeter(meter):
            return f"to add the meter {render.meter(meter)}"
        case ModifyMeter(meter):
            return f"to modify the meter {render.meter(meter)}"
        case DeleteMeter(meter_id):
            return f"to delete the meter {meter_id}"
