# SPDX-License-Identifier: Apache-2.0
"""The network as the page draws it: what of a snapshot a person sees, by name.

Plain JSON values, and nothing is null: absent means unknown or none. So a merge patch (RFC 7396) can carry each change.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controller.features.caps.view import SharerView
from controller.features.relays.view import RelayView
from controller.readout.snapshot import (
    AgentView,
    BudgetView,
    DeviceView,
    GatewayView,
    Snapshot,
    TerminalView,
    UplinkView,
)

Plain = dict[str, Any]


def picture(snapshot: Snapshot, last_event: int = 0) -> Plain:
    sharers = {each.terminal: each for air in snapshot.access_points for each in air.terminals}
    devices: dict[str, list[DeviceView]] = {}
    for device in snapshot.devices:
        devices.setdefault(device.terminal, []).append(device)
    return {
        "version": snapshot.version,
        "last_event": last_event,
        "config": _known(path=snapshot.config_path, error=snapshot.config_error, unproven=snapshot.openflow_unproven),
        "gateways": {each.name: _gateway(each) for each in snapshot.gateways},
        "terminals": {
            each.name: _terminal(each, sharers.get(each.name), devices.get(each.name)) for each in snapshot.terminals
        },
        "agents": {each.name: _agent(each) for each in snapshot.agents},
        "relays": {each.name: _relay(each) for each in snapshot.relays},
    }


def _known(**values: Any) -> Plain:
    return {key: value for key, value in values.items() if value is not None}


def _gateway(gateway: GatewayView) -> Plain:
    return _known(
        state=gateway.state,
        since=gateway.since,
        last_error=gateway.last_error,
        rival=gateway.rival,
        conflicts=list(gateway.conflicts),
        peer_site=gateway.peer_site,
        # A peer site without elimination passes every copy; without a peer site nothing is expected of it.
        passes_copies=gateway.copies.reason if gateway.copies else None,
        uplinks={each.name: _uplink(each, _troubles(gateway, each.name)) for each in gateway.uplinks},
    )


def _troubles(gateway: GatewayView, uplink: str) -> list[str]:
    if gateway.copies is None:
        return []
    silent = [each.reason for each in gateway.copies.silent if each.uplink == uplink]
    return silent + [each.reason for each in gateway.copies.unidentified if each.uplink == uplink]


def _uplink(uplink: UplinkView, troubles: list[str]) -> Plain:
    down = uplink.tunnel.reason if uplink.tunnel else None
    if not uplink.up:
        down = f"the port {uplink.port} is down" if uplink.number is not None else f"no port {uplink.port} exists"
    return _known(
        port=uplink.port,
        down=down,
        tunnel=uplink.tunnel is not None,
        sent_bytes=uplink.counters.sent.bytes if uplink.counters else None,
        received_bytes=uplink.counters.received.bytes if uplink.counters else None,
        troubles=troubles,
        budget=_budget(uplink.budget) if uplink.budget else None,
    )


def _budget(budget: BudgetView) -> Plain:
    return _known(
        used_bytes=budget.used_bytes,
        budget_bytes=budget.budget_bytes,
        period=budget.period,
        share=round(budget.share, 3),
        max_share=budget.max_share,
        nearly=budget.nearly,
        barred=budget.barred,
    )


def _terminal(terminal: TerminalView, sharer: SharerView | None, devices: list[DeviceView] | None) -> Plain:
    return _known(
        gateway=terminal.gateway,
        mode=terminal.mode,
        acting=terminal.acting,
        overridden=terminal.mode_overridden,
        active_uplink=terminal.active_uplink,
        active_by=terminal.active_by,
        default_uplink=terminal.default_uplink,
        access_point=terminal.access_point,
        addresses=[str(each.address) for each in terminal.addresses],
        sent_bytes=terminal.sent.bytes if terminal.sent else None,
        received_bytes=terminal.received.bytes if terminal.received else None,
        classes={each.name: {"mode": each.mode, "acting": each.acting} for each in terminal.classes},
        paths={each.uplink: {"health": each.health, "reason": each.reason} for each in terminal.paths},
        cap=_cap(sharer) if sharer is not None else None,
        devices={each.mac: {"name": each.name, "address": each.address} for each in devices} if devices else None,
    )


def _cap(sharer: SharerView) -> Plain:
    return _known(
        most_segments=sharer.most_segments, held=sharer.held, connections=sharer.connections, reason=sharer.reason
    )


def _agent(agent: AgentView) -> Plain:
    return _known(
        role=agent.role,
        state=agent.state,
        since=agent.since,
        peer=agent.peer,
        version=agent.version,
        terminals=list(agent.terminals),
        missing=[f"cannot {each.capability}: {each.reason}" for each in agent.missing],
    )


def _relay(relay: RelayView) -> Plain:
    return _known(
        address=f"{relay.address}:{relay.port}",
        draining=relay.draining,
        down=relay.why_not,
        connections=relay.report.connections if relay.report else None,
        gateways=dict(_reached(relay)),
    )


def _reached(relay: RelayView) -> Iterable[tuple[str, Plain]]:
    for each in relay.reached:
        rtt_ms = round(each.rtt_ms, 1) if each.rtt_ms is not None else None
        yield each.gateway, _known(connections=each.connections, rtt_ms=rtt_ms, reason=each.reason)
