"""api/agent.proto on one side, controller/reports.py on the other. What is against the contract is named.

Nothing of what an agent says is believed to be well made: an address is one, and a text is short and can be shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from itertools import islice

from google.protobuf.message import DecodeError

from api import agent_pb2 as pb
from controller.agency.refusals import Reason, Refused
from controller.brevity import shortened
from controller.reports import (
    MOST_SUBFLOWS,
    AgentOpened,
    Arm,
    Cap,
    Capability,
    Capping,
    Caps,
    Connection,
    Cost,
    Directive,
    Disarm,
    Eliminate,
    Elimination,
    Passing,
    PathCopies,
    PathManager,
    Prefer,
    ReflexFired,
    Reported,
    ReportEvery,
    Resulted,
    Role,
    Subflow,
    TunnelEnd,
    Tunnelling,
    TunnelOrder,
    Tunnels,
)

PROTOCOL = 1  # the highest that we speak
MOST_BYTES = 4 << 20  # of one word; agents make none of more than half of it
LONGEST_TEXT = 400
LONGEST_ACCOUNT = 4000  # of what was done: a sentence for each of some forty paths
MOST_OF_A_HOST = 64  # addresses, capabilities
MOST_OF_A_REPORT = 1 << 16  # connections, subflows: more than fit into what agents make, each with its addresses
MOST_PASSING = 4096  # at a gateway; its agent tells of no more
MOST_PORTS = 257  # without a program that holds windows: as many as one order has, and "all"

_ROLES = {pb.ROLE_TERMINAL: Role.TERMINAL, pb.ROLE_GATEWAY: Role.GATEWAY, pb.ROLE_RELAY: Role.RELAY}
# Where it is not known the wider reach is assumed: flags by endpoint. What the host lacks, its capabilities say.
_PATH_MANAGERS = {pb.PATH_MANAGER_USERSPACE: PathManager.USERSPACE}


def heard(raw: bytes) -> pb.FromAgent:
    """One word of an agent."""
    if len(raw) > MOST_BYTES:
        raise _against(f"sent a word of {len(raw)} bytes: expected at most {MOST_BYTES}")
    try:
        word = pb.FromAgent.FromString(raw)
    except DecodeError:
        raise _against(f"sent {len(raw)} bytes that are no FromAgent of api/agent.proto") from None
    if word.WhichOneof("word") is None:
        raise _against("sent a word that says nothing which protocol 1 knows")
    return word


def opened(session: int, name: str, peer: str, hello: pb.Hello) -> AgentOpened:
    if hello.protocol < 1:
        raise _against(f"speaks protocol {hello.protocol}: expected 1 or more; install an agent of this version")
    if hello.role not in _ROLES:
        raise _against(f"has the role {hello.role}: expected terminal, gateway or relay")
    if max(len(hello.addresses), len(hello.capabilities)) > MOST_OF_A_HOST:
        raise _against(f"says hello with more than {MOST_OF_A_HOST} addresses or capabilities")
    return AgentOpened(
        session=session,
        name=name,
        peer=peer,
        role=_ROLES[hello.role],
        path_manager=_PATH_MANAGERS.get(hello.path_manager, PathManager.KERNEL),
        version=_text(hello.version),
        capabilities=tuple(Capability(_text(one.name), one.available, _text(one.reason)) for one in hello.capabilities),
        addresses=tuple(_address(one) for one in hello.addresses),
    )


def reported(session: int, role: Role, report: pb.Report) -> Reported:
    whole = role is Role.RELAY
    if whole and (of_report := _most_of(report.connections)) > MOST_OF_A_REPORT:
        raise _against(f"reports {of_report} connections or subflows: expected {MOST_OF_A_REPORT} at most")
    connections = tuple(_connections(report.connections, MOST_OF_A_REPORT if whole else MOST_SUBFLOWS))
    return Reported(
        session=session,
        sequence=report.sequence,
        interval_ms=report.interval_ms,
        connections=connections,
        cost=Cost(report.cost.cpu_us, report.cost.rss_bytes),
        elimination=_elimination(report.elimination) if report.HasField("elimination") else None,
        tunnelling=_tunnelling(report.tunnelling) if report.HasField("tunnelling") else None,
        capping=_capping(report.capping, role) if report.HasField("capping") else None,
        cut=_is_cut(report.connections, connections),
    )


def _connections(told: Sequence[pb.Connection], most: int) -> Iterator[Connection]:
    """As many as have so many subflows; what is told behind them costs nothing."""
    for one in islice(told, most):
        subflows = tuple(map(_subflow, one.subflows[:most]))
        yield Connection(one.token, one.serves, subflows)
        most -= len(subflows)
        if not most:
            return


def _is_cut(told: Sequence[pb.Connection], read: Sequence[Connection]) -> bool:
    return len(read) < len(told) or bool(read and len(read[-1].subflows) < len(told[-1].subflows))


def _elimination(one: pb.Elimination) -> Elimination:
    if max(len(one.paths), len(one.missing), *(len(path.skew) for path in one.paths), 0) > MOST_OF_A_HOST:
        raise _against(f"tells of more than {MOST_OF_A_HOST} paths, ports or skews of copies")
    if len({path.name for path in one.paths}) < len(one.paths):
        raise _against("tells twice of one path of copies")
    return Elimination(
        window_us=one.window_us,
        paths=tuple(
            PathCopies(
                name=_text(path.name),
                native=path.native,
                first=path.first,
                eliminated=path.eliminated,
                late=path.late,
                rogue=path.rogue,
                evicted=path.evicted,
                unidentified=path.unidentified,
                skew=tuple(path.skew),
            )
            for path in one.paths
        ),
        missing=_missing(one.missing),
    )


def _tunnelling(one: pb.Tunnelling) -> Tunnelling:
    if max(len(one.ends), len(one.missing)) > MOST_OF_A_HOST:
        raise _against(f"tells of more than {MOST_OF_A_HOST} tunnels or ports")
    if len({end.name for end in one.ends}) < len(one.ends):
        raise _against("tells twice of one tunnel")
    return Tunnelling(
        ends=tuple(
            TunnelEnd(
                name=_text(end.name),
                because=_text(end.because),
                peer=_text(end.peer),
                heard_ms=end.heard_ms if end.HasField("heard_ms") else None,
                rtt_us=end.rtt_us,
                mtu_bytes=end.mtu_bytes,
                moves=end.moves,
                strangers=end.strangers,
            )
            for end in one.ends
        ),
        largest_bytes=one.largest_bytes,
        missing=_missing(one.missing),
    )


def _capping(one: pb.Capping, role: Role) -> Capping:
    most = MOST_PASSING if role is Role.GATEWAY else 0
    if len(one.passing) > most or len(one.missing) > MOST_PORTS:
        raise _against(f"tells of more than {most} connections that pass a {role}, or {MOST_PORTS} ports")
    return Capping(_text(one.hand), one.held, _missing(one.missing), tuple(_passing(each) for each in one.passing))


def _passing(one: pb.Passing) -> Passing:
    return Passing(
        terminal_address=_address(one.terminal_address),
        terminal_port=one.terminal_port,
        other_address=_address(one.other_address),
        other_port=one.other_port,
        bytes_sent=one.bytes_sent,
        srtt_us=one.srtt_us,
        min_rtt_us=one.min_rtt_us,
        since_data_ms=one.since_data_ms,
        joined=one.joined,
        has_scale=one.has_scale,
    )


def _missing(ports: Sequence[pb.Missing]) -> tuple[tuple[str, str], ...]:
    return tuple((_text(each.port), _text(each.because)) for each in ports)


def resulted(session: int, result: pb.Result) -> Resulted:
    return Resulted(
        session, result.directive, result.done, _text(result.said, LONGEST_ACCOUNT), result.connections, result.took_us
    )


def fired(session: int, word: pb.Fired) -> ReflexFired:
    return ReflexFired(
        session,
        _text(word.name),
        _text(word.said, LONGEST_ACCOUNT),
        word.stalled_ms,
        word.connections,
        word.monotonic_us,
    )


def welcome(hello: pb.Hello, interval_ms: int) -> pb.FromController:
    protocol = min(hello.protocol, PROTOCOL)
    return pb.FromController(welcome=pb.Welcome(protocol=protocol, report_interval_ms=interval_ms))


def taken(sequence: int) -> pb.FromController:
    return pb.FromController(taken=pb.Taken(sequence=sequence))


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
            word.eliminate.paths.extend(pb.CopyPath(name=name, port=port) for name, port in paths)
            word.eliminate.numbered_ports.extend(numbered_ports)
            word.eliminate.window_floor_ms, word.eliminate.window_ceiling_ms = floor_ms, ceiling_ms
        case Tunnels(tunnels, fitted_ports):
            word.tunnels.tunnels.extend(map(_tunnel, tunnels))
            word.tunnels.fitted_ports.extend(fitted_ports)
        case Caps():
            word.caps.CopyFrom(_caps(order))
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


def _subflow(one: pb.Subflow) -> Subflow:
    return Subflow(
        local_address=_address(one.local_address),
        local_port=one.local_port,
        remote_address=_address(one.remote_address),
        remote_port=one.remote_port,
        backup_by_us=one.backup_by_us,
        backup_by_peer=one.backup_by_peer,
        srtt_us=one.srtt_us,
        min_rtt_us=one.min_rtt_us,
        cwnd_segments=one.cwnd_segments,
        in_flight_segments=one.in_flight_segments,
        delivery_rate_bps=one.delivery_rate_bps,
        segments_sent=one.segments_sent,
        retransmits=one.retransmits,
        bytes_acked=one.bytes_acked,
        bytes_received=one.bytes_received,
        since_ack_ms=one.since_ack_ms,
    )


def _most_of(connections: Sequence[pb.Connection]) -> int:
    if len(connections) > MOST_OF_A_REPORT:
        return len(connections)  # so many are not even looked into
    return max(len(connections), sum(len(one.subflows) for one in connections))


@lru_cache(maxsize=1 << 14)
def _address(text: str) -> str:
    """In the one spelling that can be compared; empty where the kernel did not tell it."""
    try:
        if "%" in text:
            raise ValueError("a zone may be any text, and is of no use here")
        address = ip_address(text) if text else ""
    except ValueError:
        raise _against(f"sent {_text(text)!r} for an address") from None
    return str((isinstance(address, IPv6Address) and address.ipv4_mapped) or address)


def _text(text: str, most: int = LONGEST_TEXT) -> str:
    short = shortened(text, most)
    return short if short.isprintable() else "".join(one if one.isprintable() else " " for one in short)


def _against(sentence: str) -> Refused:
    return Refused(Reason.SPEECH, sentence)
