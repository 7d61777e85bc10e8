# SPDX-License-Identifier: Apache-2.0
"""The encoder of api/agent.proto."""

from __future__ import annotations

from api import agent_pb2 as pb
from controller.protocol.orders import (
    AnswerProbes,
    AnswerSession,
    Arm,
    Cap,
    Caps,
    Choices,
    Directive,
    Disarm,
    Eliminate,
    HealthPath,
    HealthProbes,
    Intercept,
    InterceptedTerminal,
    InterceptRelay,
    MeasureDistances,
    PortForward,
    Prefer,
    Probe,
    ProbeRoute,
    Relay,
    ReportEvery,
    TunnelOrder,
    Tunnels,
)

PROTOCOL = 1  # highest supported version


def welcome(hello: pb.Hello, interval_ms: int) -> pb.FromController:
    protocol = min(hello.protocol, PROTOCOL)
    return pb.FromController(welcome=pb.Welcome(protocol=protocol, report_interval_ms=interval_ms))


def ack(sequence: int) -> pb.FromController:
    return pb.FromController(ack=pb.ReportAck(sequence=sequence))


def directive(number: int, order: Directive) -> pb.FromController:
    word = pb.Directive(id=number)
    match order:
        case ReportEvery(interval_ms):
            word.report_every.interval_ms = interval_ms
        case Prefer(path, others, hard):
            word.prefer.path.terminal_addresses.extend(path)
            word.prefer.others.extend(pb.Path(terminal_addresses=other) for other in others)
            word.prefer.hard = hard
        case Arm(name, watched, fallback, no_progress_ms, no_progress_many_ms, lease_ms):
            word.arm.name = name
            word.arm.watched.terminal_addresses.extend(watched)
            word.arm.fallback.terminal_addresses.extend(fallback)
            word.arm.no_progress_ms, word.arm.no_progress_many_ms = no_progress_ms, no_progress_many_ms
            word.arm.lease_ms = lease_ms
        case Disarm(name):
            word.disarm.name = name
        case Eliminate(paths, numbered_ports, floor_ms, ceiling_ms):
            word.eliminate.paths.extend(pb.CopyPath(name=name, port=port, mac=mac) for name, port, mac in paths)
            word.eliminate.numbered_ports.extend(numbered_ports)
            word.eliminate.window_floor_ms, word.eliminate.window_ceiling_ms = floor_ms, ceiling_ms
        case Tunnels(tunnels, fitted_ports, lan_ports):
            word.tunnels.tunnels.extend(map(_tunnel, tunnels))
            word.tunnels.fitted_ports.extend(fitted_ports)
            word.tunnels.lan_ports.extend(lan_ports)
        case Caps():
            word.caps.CopyFrom(_caps(order))
        case AnswerProbes(sessions):
            word.answer.sessions.extend(map(_session, sessions))
        case HealthProbes(paths):
            word.health.paths.extend(map(_path, paths))
        case Probe():
            word.probe.CopyFrom(_probe(order))
        case Relay():
            word.relay.CopyFrom(_relay(order))
        case Intercept():
            word.intercept.CopyFrom(_intercept(order))
        case Choices(choices):
            word.choices.choices.extend(
                pb.RelayChoice(prefix=one.prefix, relays=one.relays, together=one.together) for one in choices
            )
        case MeasureDistances(targets):
            word.measure_distances.targets.extend(
                pb.DistanceTarget(address=one.address, port=one.port, routers=one.routers) for one in targets
            )
    return pb.FromController(directive=word)


def _tunnel(order: TunnelOrder) -> pb.Tunnel:
    return pb.Tunnel(
        name=order.name,
        port=order.port,
        vni=order.vni,
        udp_port=order.udp_port,
        device=order.device or "",
        remote=order.remote or "",
        key=order.key,
    )


def _caps(order: Caps) -> pb.Caps:
    return pb.Caps(
        caps=map(_cap, order.caps),
        lease_ms=order.lease_ms,
        sharers=order.sharers,
        block_bytes=order.block_bytes,
        ports=order.ports,
    )


def _cap(one: Cap) -> pb.Cap:
    return pb.Cap(
        terminal_address=one.terminal_address,
        other_address=one.other_address,
        most_segments=one.most_segments,
        least_segments=one.least_segments,
        pace_bps=one.pace_bps,
    )


def _session(one: AnswerSession) -> pb.AnswerSession:
    return pb.AnswerSession(number=one.number, key=one.key, health_port=one.health_port, probe_port=one.probe_port)


def _path(one: HealthPath) -> pb.HealthPath:
    return pb.HealthPath(
        name=one.name,
        route=_probe_route(one.route),
        port=one.port,
        number=one.number,
        key=one.key,
        pause_ms=one.pause_ms,
    )


def _probe(one: Probe) -> pb.Probe:
    return pb.Probe(
        name=one.name,
        route=_probe_route(one.route),
        port=one.port,
        key=one.key,
        down=one.down,
        shortest_bytes=one.shortest_bytes,
        longest_bytes=one.longest_bytes,
        step_bytes=one.step_bytes,
        tries=one.tries,
        pause_us=one.pause_us,
        trains=one.trains,
        train_packets=one.train_packets,
    )


def _probe_route(one: ProbeRoute) -> pb.ProbeRoute:
    return pb.ProbeRoute(device=one.device or "", local=one.local or "", remote=one.remote)


def _relay(one: Relay) -> pb.Relay:
    return pb.Relay(
        port=one.port,
        certificate=one.certificate,
        gateways=(pb.RelayClient(name=each.name, certificate_sha256=each.certificate_sha256) for each in one.gateways),
        allowed=(pb.PortRange(first=each.first, last=each.last) for each in one.allowed),
        congestion=one.congestion or "",
        draining=one.draining,
        onward=map(_port_forward, one.onward),
    )


def _port_forward(one: PortForward) -> pb.PortForward:
    return pb.PortForward(port=one.port, address=one.address, other_port=one.other_port)


def _intercept(one: Intercept) -> pb.Intercept:
    return pb.Intercept(
        port=one.port,
        terminals=map(_intercepted_terminal, one.terminals),
        uplinks=(pb.InterceptUplink(name=each.name, port=each.port, gateways=each.gateways) for each in one.uplinks),
        relays=map(_intercept_relay, one.relays),
        block=one.block,
        **{"except": one.left_alone},
    )


def _intercepted_terminal(one: InterceptedTerminal) -> pb.InterceptedTerminal:
    locals_ = (pb.LocalAddress(uplink=each.uplink, addresses=each.addresses) for each in one.locals)
    return pb.InterceptedTerminal(name=one.name, addresses=one.addresses, locals=locals_)


def _intercept_relay(one: InterceptRelay) -> pb.InterceptRelay:
    return pb.InterceptRelay(
        name=one.name,
        address=one.address,
        port=one.port,
        draining=one.draining,
        onward=map(_port_forward, one.onward),
        key_sha256=one.key_sha256,
    )
