# SPDX-License-Identifier: Apache-2.0
"""The builder of the snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from itertools import chain

from controller.agents.agent import Agent
from controller.core.core import Core
from controller.features.copies.metered_uplinks import Budgets
from controller.features.peer_sites.manager import PeerSites
from controller.features.relays import readout
from controller.features.steering.terminal import Steered
from controller.model.config import Site, Terminal, TerminalAddress
from controller.model.in_force import InForce
from controller.model.overrides import in_class
from controller.model.traffic import Network
from controller.model.uplink import Period, Uplink
from controller.program.metering import through
from controller.program.program import Action, Output, PacketCounters, ToGroup
from controller.program.readback import counting_ids
from controller.program.render import Renderer
from controller.readout.snapshot import (
    AddressView,
    AgentView,
    BucketView,
    BudgetView,
    ClassView,
    CopiesView,
    DecisionView,
    DeviceView,
    FittingView,
    GatewayView,
    HealthView,
    NextHopView,
    SilentView,
    Snapshot,
    TerminalView,
    TunnelView,
    UnidentifiedView,
    UplinkView,
    Watched,
    WatchedTerminal,
)
from controller.readout.why import active_by, agent_view, decision_view, health_views, traffic_view
from controller.switches.switch import Switch


def snapshot(core: Core, config_path: str, version: str, now: float, wall_offset_s: float) -> Snapshot:
    """Return the state of the core. `wall_offset_s` converts the core's monotonic clock to Unix time."""
    return Snapshot(
        version=version,
        gateways=_gateways(core, wall_offset_s),
        terminals=tuple(
            each for switch in core.switches.values() for each in _terminals(core, switch, now, wall_offset_s)
        ),
        agents=_agents(core, wall_offset_s),
        config_path=config_path,
        config_loaded_at=core.config_loaded_at + wall_offset_s,
        config_failures=core.config_failures,
        config_error=str(core.config_error) if core.config_error else None,
        access_points=core.caps.view(now),
        paths=core.probing.view(now),
        relays=readout.relay_views(core.relays, core.overrides, now),
        interceptions=readout.interception_views(core.relays),
        devices=tuple(each for agent in core.agents.known.values() for each in _devices(core, agent)),
        config_loads=core.config_loads,
        openflow_unproven=core.config.settings.unproven,
    )


def watched(core: Core, now: float, wall_offset_s: float) -> Watched:
    return Watched(
        gateways=_gateways(core, wall_offset_s),
        terminals=tuple(
            WatchedTerminal(each.name, each.site.name, *_health_and_decision(core, each, now, wall_offset_s))
            for each in core.steering.steered.values()
        ),
        agents=_agents(core, wall_offset_s),
        relays=readout.relay_views(core.relays, core.overrides, now),
        config_failures=core.config_failures,
        config_error=str(core.config_error) if core.config_error else None,
        config_loads=core.config_loads,
    )


def _health_and_decision(
    core: Core, steered: Steered, now: float, wall_offset_s: float
) -> tuple[tuple[HealthView, ...], DecisionView | None]:
    newest = core.steering.logbook.newest(steered.name)
    decision = decision_view(newest, wall_offset_s) if newest is not None else None
    return tuple(health_views(core, steered, now, wall_offset_s)), decision


def buckets(core: Core) -> tuple[BucketView, ...]:
    found = sorted(chain.from_iterable(map(_buckets, core.switches.values())))
    return tuple(BucketView(*place, PacketCounters(packets, of_bytes)) for place, packets, of_bytes in found)


def _buckets(switch: Switch) -> Iterator[tuple[tuple[str, str, str], int, int]]:
    """Yield gateway, label and uplink, with sums of packets and bytes."""
    program, ports, site = switch.expected(), switch.observed.ports, switch.site
    last_of: dict[Action, str] = {Output(ports[up.port].number): up.name for up in site.uplinks if up.port in ports}
    last_of |= {way: name for name, way in through(site).items()}
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for group in program.groups.values() if program else ():
        counted = switch.installed.bucket_counters.get(group.group_id, ())
        if len(counted) != len(group.buckets):
            continue  # the reading is older than the last change
        for bucket, counters in zip(group.buckets, counted, strict=True):
            uplink = last_of.get(bucket.actions[-1])
            if uplink is not None and counters is not None:
                packets, of_bytes = sums.get((group.label, uplink), (0, 0))
                sums[group.label, uplink] = packets + counters.packets, of_bytes + counters.bytes
    yield from (((site.name, *place), *sum_of) for place, sum_of in sums.items())


def _agents(core: Core, wall_offset_s: float) -> tuple[AgentView, ...]:
    return tuple(agent_view(core, agent, wall_offset_s) for agent in core.agents.known.values())


def _gateways(core: Core, wall_offset_s: float) -> tuple[GatewayView, ...]:
    return tuple(_gateway(switch, core.peer_sites, core.budgets, wall_offset_s) for switch in core.switches.values())


def _gateway(switch: Switch, peer_sites: PeerSites, budgets: Budgets, wall_offset_s: float) -> GatewayView:
    return GatewayView(
        name=switch.site.name,
        dpid=f"{switch.site.dpid:016x}",
        bridge=switch.site.bridge,
        state=switch.state,
        since=switch.since + wall_offset_s,
        peer=switch.peer,
        rival=switch.duplicate_dpid.rival,
        last_error=switch.last_error,
        reconciles=switch.reconciles,
        changes_sent=switch.changes_sent,
        last_changes=switch.last_changes,
        refusals=switch.refusals,
        conflicts=tuple(map(Renderer(switch.observed.ports).place, switch.conflicts)),
        uplinks=tuple(_uplink(switch, uplink, peer_sites, budgets) for uplink in switch.site.uplinks),
        copies=_copies(switch.site, peer_sites),
        fitting=_fitting(switch.site, peer_sites),
        peer_site=switch.site.other_end,
    )


def _copies(site: Site, peer_sites: PeerSites) -> CopiesView | None:
    if not peer_sites.may_eliminate(site):
        return None
    report = peer_sites.report_of(site)
    names = {uplink.name for uplink in site.uplinks}
    return CopiesView(
        copied=tuple(protocol.label for protocol in site.bicast.protocols) or ("all",),
        eliminated=peer_sites.eliminates(site.name),
        reason=None if peer_sites.eliminates(site.name) else peer_sites.why_not(site.name),
        window_us=report.window_us if report else None,
        paths=tuple(path for path in report.paths if path.name in names) if report else (),
        silent=tuple(SilentView(name, reason) for name, reason in peer_sites.silent(site).items()),
        unidentified=tuple(UnidentifiedView(name, reason) for name, reason in peer_sites.unidentified(site).items()),
    )


def _uplink(switch: Switch, uplink: Uplink, peer_sites: PeerSites, budgets: Budgets) -> UplinkView:
    port = switch.observed.ports.get(uplink.port) if switch.session is not None else None
    return UplinkView(
        name=uplink.name,
        port=uplink.port,
        number=port.number if port else None,
        up=bool(port and port.up),
        addresses=uplink.addresses,
        next_hops=tuple(
            NextHopView(hop.address, hop.mac or switch.observed.macs.get((uplink.port, hop.address)))
            for hop in uplink.next_hops
        ),
        counters=switch.port_counters.get(port.number) if port else None,
        tunnel=_tunnel(switch.site, uplink, peer_sites) if uplink.tunnel else None,
        budget=_budget(switch.site, uplink.name, budgets),
    )


def _budget(site: Site, uplink: str, budgets: Budgets) -> BudgetView | None:
    account = budgets.account(site.name, uplink)
    if account is None:
        return None
    budget, most_share = account.limits.budget, account.limits.max_share
    barred, nearly = budgets.why(site.name, uplink), budgets.nearly(site.name, uplink)
    most_bytes, period = (budget.bytes, budget.period) if budget else (None, Period.DAY)
    return BudgetView(account.used.bytes, most_bytes, period, account.share, most_share, nearly, barred)


def _fitting(site: Site, peer_sites: PeerSites) -> FittingView | None:
    report = peer_sites.tunnels.report_of(site)
    return FittingView(report.largest_bytes or None, report.missing) if report else None


def _tunnel(site: Site, uplink: Uplink, peer_sites: PeerSites) -> TunnelView:
    reason = peer_sites.tunnels.why_not(site, uplink.name)
    encrypted = uplink.tunnel is not None and not uplink.tunnel.clear
    return TunnelView(reason is None, reason, peer_sites.tunnels.ends(site).get(uplink.name), encrypted)


def _terminals(core: Core, switch: Switch, now: float, wall_offset_s: float) -> Iterator[TerminalView]:
    site, in_force, overrides = switch.site, core.in_force, core.overrides
    ids, counted = counting_ids(site), _flows_counted(switch)
    for terminal in site.terminals:
        sent, received = ids[terminal.name]
        paths, decision = _health_and_decision(core, core.steering.steered[terminal.name], now, wall_offset_s)
        yield TerminalView(
            name=terminal.name,
            gateway=site.name,
            mode=overrides.mode(terminal),
            acting=in_force.redundancy(site, terminal).mode,
            active_uplink=in_force.active_uplink(site, terminal),
            default_uplink=terminal.default_uplink,
            access_point=terminal.access_point,
            active_by=active_by(in_force, site, terminal),
            mode_overridden=terminal.name in overrides.modes,
            addresses=tuple(
                AddressView(at.address, at.subnet, at.port, switch.observed.mac_of(at)) for at in terminal.addresses
            ),
            sent=_counted(counted, sent),
            received=_counted(counted, received),
            classes=tuple(_class(site, terminal, each.name, in_force) for each in site.named),
            traffic=traffic_view(core.copying.traffic, site, terminal, now),
            paths=paths,
            last_decision=decision,
        )


def _devices(core: Core, agent: Agent) -> Iterator[DeviceView]:
    """Yield the devices of an agent's report whose addresses are in a LAN of its site."""
    site = next((each for each in core.config.sites if each.name == agent.name), None)
    if site is None or not agent.alive or agent.report is None:
        return
    lans = {subnet.name for subnet in site.subnets if subnet.lan}
    places = [(terminal, at) for terminal in site.terminals for at in terminal.addresses if at.subnet in lans]
    places.sort(key=lambda each: each[1].host is None)  # an entry for the address precedes the LAN's
    for one in agent.report.devices:
        address = ip_network(one.address)
        holding = (terminal for terminal, at in places if _holds(at, address))
        terminal = next(holding, None)
        if terminal:
            yield DeviceView(one.name, one.address, one.mac, site.name, terminal.name)


def _holds(at: TerminalAddress, address: Network) -> bool:
    return at.address.version == address.version and ip_network(at.address).overlaps(address)


def _class(site: Site, terminal: Terminal, name: str, in_force: InForce) -> ClassView:
    wished = in_class(terminal.name, name) in in_force.overrides.modes
    acting = in_force.redundancy(site, terminal, name).mode
    return ClassView(name, in_force.overrides.mode_of(terminal, name), wished, acting)


def _counted(by_group: dict[int, list[PacketCounters]], group_ids: tuple[int, ...]) -> PacketCounters | None:
    found = [counters for group_id in group_ids for counters in by_group.get(group_id, ())]
    if not found:
        return None
    return PacketCounters(sum(each.packets for each in found), sum(each.bytes for each in found))


def _flows_counted(switch: Switch) -> dict[int, list[PacketCounters]]:
    """Return the counters of flows to each group: a group's own restart when it is modified."""
    by_group: dict[int, list[PacketCounters]] = {}
    for key, counters in switch.installed.flow_counters.items():
        flow = switch.installed.program.flows.get(key)
        for action in flow.actions if flow else ():
            if isinstance(action, ToGroup):
                by_group.setdefault(action.group_id, []).append(counters)
    return by_group
