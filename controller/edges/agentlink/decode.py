# SPDX-License-Identifier: Apache-2.0
"""The decoder of api/agent.proto. It names each breach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from itertools import islice

from google.protobuf.message import DecodeError

from api import agent_pb2 as pb
from controller.edges.trust.refusals import Reason, Refused
from controller.model.known import MOST_RELAYS, PREFIXES
from controller.model.text import shortened
from controller.protocol.enrolment import Binding
from controller.protocol.reports import (
    MOST_SUBFLOWS,
    AgentOpened,
    Answering,
    Capability,
    Capping,
    Connection,
    Cost,
    Distance,
    DistancesMeasured,
    Elimination,
    FailoverFired,
    HealthWindow,
    InterceptionReport,
    InterfaceCounters,
    LanDevice,
    Passing,
    PathCopies,
    PathHealth,
    PathManager,
    PendingDestination,
    ProbePacket,
    ProbeReport,
    RelayReached,
    RelayReport,
    Reported,
    Resulted,
    Role,
    Router,
    Subflow,
    TerminalInterception,
    TunnelEnd,
    Tunnelling,
)

# A text is short and printable, an address has one spelling, and anything else is refused

LONGEST_TEXT = 400
LONGEST_ACCOUNT = 4000  # one sentence for each of some forty paths


@lru_cache(maxsize=1 << 14)
def canonical_address(spelling: str) -> str:
    """Return the canonical spelling. Empty stays empty: the kernel reported none."""
    try:
        if "%" in spelling:
            raise ValueError("an address here must not have a zone")
        found = ip_address(spelling) if spelling else ""
    except ValueError:
        raise breach(f"sent {checked_text(spelling)!r} for an address") from None
    return str((isinstance(found, IPv6Address) and found.ipv4_mapped) or found)


def checked_text(text: str, most: int = LONGEST_TEXT) -> str:
    short = shortened(text, most)
    return short if short.isprintable() else "".join(one if one.isprintable() else " " for one in short)


def breach(sentence: str) -> Refused:
    return Refused(Reason.SPEECH, sentence)


MOST_OF_A_KIND = 64  # paths, tunnels, ports
MOST_INTERFACES = 1024
MOST_DEVICES = 1024  # with leases
MOST_PASSING = 4096  # at a gateway
MOST_PORTS = 257  # ports without the window program: as many as one order names, and "all"


def elimination(one: pb.Elimination) -> Elimination:
    if max(len(one.paths), len(one.missing), *(len(path.skew) for path in one.paths), 0) > MOST_OF_A_KIND:
        raise breach(f"reported more than {MOST_OF_A_KIND} paths, ports or skews of copies")
    if len({path.name for path in one.paths}) < len(one.paths):
        raise breach("reported one path of copies twice")
    return Elimination(
        window_us=one.window_us,
        paths=tuple(
            PathCopies(
                name=checked_text(path.name),
                native=path.native,
                first=path.first,
                eliminated=path.eliminated,
                late=path.late,
                rogue=path.rogue,
                evicted=path.evicted,
                unidentified=path.unidentified,
                not_forwarded=path.not_forwarded,
                skew=tuple(path.skew),
            )
            for path in one.paths
        ),
        missing=_missing(one.missing),
    )


def tunnelling(one: pb.Tunnelling) -> Tunnelling:
    if max(len(one.ends), len(one.missing)) > MOST_OF_A_KIND:
        raise breach(f"reported more than {MOST_OF_A_KIND} tunnels or ports")
    if len({end.name for end in one.ends}) < len(one.ends):
        raise breach("reported one tunnel twice")
    return Tunnelling(
        ends=tuple(
            TunnelEnd(
                name=checked_text(end.name),
                reason=checked_text(end.reason),
                peer=checked_text(end.peer),
                since_packet_ms=end.since_packet_ms if end.HasField("since_packet_ms") else None,
                rtt_us=end.rtt_us,
                mtu_bytes=end.mtu_bytes,
                moves=end.moves,
                unauthenticated=end.unauthenticated,
            )
            for end in one.ends
        ),
        largest_bytes=one.largest_bytes,
        missing=_missing(one.missing),
    )


def capping(one: pb.Capping, role: Role) -> Capping:
    most = MOST_PASSING if role is Role.GATEWAY else 0
    if len(one.passing) > most or len(one.missing) > MOST_PORTS:
        raise breach(f"reported more than {most} connections through a {role}, or {MOST_PORTS} ports")
    return Capping(
        checked_text(one.method), one.held_sockets, _missing(one.missing), tuple(_passing(each) for each in one.passing)
    )


def _passing(one: pb.Passing) -> Passing:
    return Passing(
        terminal_address=canonical_address(one.terminal_address),
        terminal_port=one.terminal_port,
        other_address=canonical_address(one.other_address),
        other_port=one.other_port,
        bytes_sent=one.bytes_sent,
        srtt_us=one.srtt_us,
        min_rtt_us=one.min_rtt_us,
        since_data_ms=one.since_data_ms,
        joined=one.joined,
        has_scale=one.has_scale,
    )


def _missing(ports: Sequence[pb.Missing]) -> tuple[tuple[str, str], ...]:
    return tuple((checked_text(each.port), checked_text(each.reason)) for each in ports)


# Counts that contradict each other are refused

MOST_WINDOWS = 8
MOST_PACKETS = 20_000  # per probe
LONGEST_BYTES = 65_507  # UDP payload
LATEST_NS = 3600 * 10**9  # since the origin
TRANSPORTS = ("udp", "udp6")


def answering(one: pb.Answering) -> Answering:
    return Answering(
        checked_text(one.reason), one.probes, one.health_packets, one.unauthenticated, one.replays, one.too_many
    )


def health(paths: Sequence[pb.PathHealth]) -> tuple[PathHealth, ...]:
    if len(paths) > MOST_OF_A_KIND or any(len(path.windows) > MOST_WINDOWS for path in paths):
        raise breach(f"reported the health of more than {MOST_OF_A_KIND} paths, or {MOST_WINDOWS} windows of one")
    if len({path.name for path in paths}) < len(paths):
        raise breach("reported the health of one path twice")
    return tuple(map(_path, paths))


def _path(one: pb.PathHealth) -> PathHealth:
    name = checked_text(one.name)
    _check(name, one)
    return PathHealth(
        name=name,
        reason=checked_text(one.reason),
        sent=one.sent,
        lost=one.lost,
        lost_there=one.lost_there,
        lost_back=one.lost_back,
        late=one.late,
        windows=tuple(_window(name, window) for window in one.windows),
    )


def _window(name: str, one: pb.HealthWindow) -> HealthWindow:
    _check(name, one)
    return HealthWindow(
        seconds=one.seconds,
        sent=one.sent,
        lost=one.lost,
        lost_there=one.lost_there,
        lost_back=one.lost_back,
        reordered=one.reordered,
        rtt_least_us=one.rtt_least_us,
        rtt_median_us=one.rtt_median_us,
        rtt_p95_us=one.rtt_p95_us,
        reason=checked_text(one.reason),
        there_median_us=one.there_median_us,
        there_p95_us=one.there_p95_us,
        there_jitter_us=one.there_jitter_us,
        back_median_us=one.back_median_us,
        back_p95_us=one.back_p95_us,
        back_jitter_us=one.back_jitter_us,
    )


def _check(name: str, one: pb.PathHealth | pb.HealthWindow) -> None:
    if one.lost > one.sent or one.lost_there + one.lost_back > one.lost:
        lost = f"{one.lost} lost of {one.sent}, {one.lost_there} there and {one.lost_back} back"
        raise breach(f"reported {lost} for {name}: expected no part larger than the whole")


def probe_report(session: int, word: pb.ProbeReport) -> ProbeReport:
    columns = (word.trains, word.lengths, word.sent_ns, word.received_ns, word.answered_ns, word.returned_ns)
    if any(len(column) != len(word.trains) for column in columns):
        counts = ", ".join(str(len(column)) for column in columns)
        raise breach(f"reported {counts} values of a probe's packets: expected the same number of each kind")
    if len(word.trains) > MOST_PACKETS:
        raise breach(f"reported {len(word.trains)} packets of a probe: expected at most {MOST_PACKETS}")
    if word.trains and word.transport not in TRANSPORTS:
        raise breach(f"probed over {checked_text(word.transport)!r}: expected {' or '.join(TRANSPORTS)}")
    for column, most, what in (
        (word.trains, MOST_PACKETS, "trains"),
        (word.lengths, LONGEST_BYTES, "bytes of UDP payload"),
        *((times, LATEST_NS, "ns since the probe began") for times in columns[2:]),
    ):
        if max(column, default=0) > most:
            raise breach(f"reported {max(column)} {what} for a probe: expected at most {most}")
    return ProbeReport(
        session=session,
        directive=word.directive,
        reason=checked_text(word.reason),
        transport=word.transport if word.trains else "",
        hardware=word.hardware,
        packets=tuple(_packets(columns)),
    )


def _packets(columns: Sequence[Sequence[int]]) -> Iterator[ProbePacket]:
    for train, length, *times in zip(*columns, strict=True):
        yield ProbePacket(train, length, *(at - 1 if at else None for at in times))


# Only global unicast addresses count: otherwise a gateway could make a relay send to hosts of the relay's own network.

MOST_TERMINALS = 250
MOST_PENDING = 64
MOST_DISTANCES = 64
MOST_ROUTERS = 30
LONGEST_RTT_US = 60_000_000  # longer than an agent waits


def relay_report(one: pb.RelayReport) -> RelayReport:
    return RelayReport(
        reason=checked_text(one.reason),
        draining=one.draining,
        connections=one.connections,
        waiting=one.waiting,
        carried=one.carried,
        refused=one.refused,
        failed=one.failed,
        unauthenticated=one.unauthenticated,
        bytes_up=one.bytes_up,
        bytes_down=one.bytes_down,
        overhead_us=one.overhead_us,
        busy_percent=min(one.busy_percent, 100),
        congestion=checked_text(one.congestion),
    )


def interception_report(one: pb.InterceptionReport) -> InterceptionReport:
    for items, most, what in (
        (one.relays, MOST_RELAYS, "relays"),
        (one.terminals, MOST_TERMINALS, "intercepted terminals"),
        (one.pending, MOST_PENDING, "wanted destinations"),
    ):
        if len(items) > most:
            raise breach(f"reported {len(items)} {what}: expected at most {most}")
    _check_once((relay.name for relay in one.relays), "relay")
    _check_once((terminal.name for terminal in one.terminals), "intercepted terminal")
    return InterceptionReport(
        reason=checked_text(one.reason),
        relays=tuple(
            RelayReached(
                checked_text(relay.name), checked_text(relay.reason), relay.connections, relay.opened, relay.setup_us
            )
            for relay in one.relays
        ),
        terminals=tuple(
            TerminalInterception(
                checked_text(terminal.name),
                terminal.connections,
                terminal.relayed,
                terminal.direct,
                terminal.reset,
                terminal.bytes_up,
                terminal.bytes_down,
            )
            for terminal in one.terminals
        ),
        pending=tuple(
            found for each in one.pending if (found := _pending_destination(each.prefix, each.address, each.port))
        ),
    )


@lru_cache(maxsize=1 << 12)
def _pending_destination(prefix: str, address: str, port: int) -> PendingDestination | None:
    """Return the destination, or None if no relay can reach its address."""
    try:
        network, found = ip_network(prefix), ip_address(canonical_address(address))
    except ValueError:
        raise breach(
            f"wants the destination {checked_text(address)!r} in {checked_text(prefix)!r}: expected an "
            "address and its network"
        ) from None
    if network.prefixlen != PREFIXES[network.version] or found not in network:
        raise breach(f"wants the destination {found} in {network}: expected a /24 or /48 that contains it")
    if not 1 <= port <= 65535:
        raise breach(f"wants port {port} of {found}: expected 1 to 65535")
    return PendingDestination(str(network), str(found), port) if found.is_global and not found.is_multicast else None


def distances_measured(session: int, word: pb.DistancesMeasured) -> DistancesMeasured:
    if len(word.distances) > MOST_DISTANCES:
        raise breach(f"probed {len(word.distances)} addresses: expected at most {MOST_DISTANCES}")
    return DistancesMeasured(session, word.directive, tuple(map(_distance, word.distances)))


def _distance(one: pb.Distance) -> Distance:
    if len(one.routers) > MOST_ROUTERS:
        raise breach(f"reported {len(one.routers)} routers on one path: expected at most {MOST_ROUTERS}")
    routers = tuple(Router(canonical_address(router.address), _rtt_us(router.rtt_us)) for router in one.routers)
    return Distance(canonical_address(one.address), checked_text(one.reason), _rtt_us(one.rtt_us), routers)


def _rtt_us(rtt_us: int) -> int:
    if rtt_us > LONGEST_RTT_US:
        raise breach(f"reported a round trip of {rtt_us} us: expected at most {LONGEST_RTT_US}")
    return rtt_us


def _check_once(names: Iterable[str], what: str) -> None:
    known = list(names)
    if len(set(known)) < len(known):
        raise breach(f"reported one {what} twice")


MOST_BYTES = 4 << 20  # agents send at most half
MOST_OF_A_HOST = 64  # addresses, capabilities
MOST_OF_A_REPORT = 1 << 16  # connections or subflows: more than an agent's largest message has

_ROLES = {pb.ROLE_TERMINAL: Role.TERMINAL, pb.ROLE_GATEWAY: Role.GATEWAY, pb.ROLE_RELAY: Role.RELAY}
# An unknown manager counts as the kernel's, whose flags by endpoint reach more.
_PATH_MANAGERS = {pb.PATH_MANAGER_USERSPACE: PathManager.USERSPACE}


def message(raw: bytes) -> pb.FromAgent:
    if len(raw) > MOST_BYTES:
        raise breach(f"sent a message of {len(raw)} bytes: expected at most {MOST_BYTES}")
    try:
        word = pb.FromAgent.FromString(raw)
    except DecodeError:
        raise breach(f"sent {len(raw)} bytes that do not decode as FromAgent of api/agent.proto") from None
    if word.WhichOneof("payload") is None:
        raise breach("sent a message without any content that protocol 1 defines")
    return word


def opened(session: int, name: str, peer: str, hello: pb.Hello, binding: Binding | None) -> AgentOpened:
    """Return the hello as an event, or refuse it. `binding` is the certificate's."""
    if hello.protocol < 1:
        raise breach(
            f"speaks protocol {hello.protocol}: expected 1 or more; install an agent of the controller's version"
        )
    if hello.role not in _ROLES:
        raise breach(f"has the role {hello.role}: expected terminal, gateway or relay")
    if max(len(hello.addresses), len(hello.capabilities)) > MOST_OF_A_HOST:
        raise breach(f"sent a hello with more than {MOST_OF_A_HOST} addresses or capabilities")
    role = _ROLES[hello.role]
    if binding is None or binding.role is not role:
        raise Refused(Reason.ROLE, _of_another_role(name, role, binding))
    return AgentOpened(
        session=session,
        name=name,
        peer=peer,
        role=role,
        path_manager=_PATH_MANAGERS.get(hello.path_manager, PathManager.KERNEL),
        version=checked_text(hello.version),
        capabilities=tuple(
            Capability(checked_text(one.name), one.available, checked_text(one.reason)) for one in hello.capabilities
        ),
        addresses=tuple(canonical_address(one) for one in hello.addresses),
        terminal=binding.terminal,
    )


def _of_another_role(name: str, role: Role, binding: Binding | None) -> str:
    if binding is None:
        return f"the certificate of {name} names no role: run `bicast enroll {name}` on the controller, and join again"
    return (
        f"{name} has the role {role}, but its certificate is for a {binding.role}: run "
        f"it with `--role {binding.role}`; or run `bicast enroll {name} --role {role}` on "
        "the controller, and join again"
    )


def reported(session: int, role: Role, report: pb.Report) -> Reported:
    whole = role is Role.RELAY
    if whole and (of_report := _most_of(report.connections)) > MOST_OF_A_REPORT:
        raise breach(f"reports {of_report} connections or subflows: expected at most {MOST_OF_A_REPORT}")
    connections = tuple(_connections(report.connections, MOST_OF_A_REPORT if whole else MOST_SUBFLOWS))
    return Reported(
        session=session,
        sequence=report.sequence,
        interval_ms=report.interval_ms,
        connections=connections,
        cost=Cost(report.cost.cpu_us, report.cost.rss_bytes),
        elimination=elimination(report.elimination) if report.HasField("elimination") else None,
        tunnelling=tunnelling(report.tunnelling) if report.HasField("tunnelling") else None,
        capping=capping(report.capping, role) if report.HasField("capping") else None,
        answering=answering(report.answering) if report.HasField("answering") else None,
        health=health(report.health),
        relay=relay_report(report.relay) if report.HasField("relay") else None,
        interception=interception_report(report.interception) if report.HasField("interception") else None,
        interfaces=interfaces(report.interfaces) if role is Role.GATEWAY else (),
        devices=devices(report.devices) if role is Role.GATEWAY else (),
        cut=_is_cut(report.connections, connections),
    )


def interfaces(reported: Sequence[pb.Interface]) -> tuple[InterfaceCounters, ...]:
    some = reported[:MOST_INTERFACES]
    return tuple(InterfaceCounters(one.name, one.bytes_sent, one.bytes_received) for one in some)


def devices(reported: Sequence[pb.LanDevice]) -> tuple[LanDevice, ...]:
    some = reported[:MOST_DEVICES]
    return tuple(
        LanDevice(checked_text(one.name), canonical_address(one.address), checked_text(one.mac)) for one in some
    )


def _connections(reported: Sequence[pb.Connection], most: int) -> Iterator[Connection]:
    for one in islice(reported, most):
        subflows = tuple(map(_subflow, one.subflows[:most]))
        yield Connection(one.token, one.serves, subflows)
        most -= len(subflows)
        if not most:
            return


def _is_cut(reported: Sequence[pb.Connection], read: Sequence[Connection]) -> bool:
    return len(read) < len(reported) or bool(read and len(read[-1].subflows) < len(reported[-1].subflows))


def resulted(session: int, result: pb.Result) -> Resulted:
    return Resulted(
        session,
        result.directive,
        result.done,
        checked_text(result.answer, LONGEST_ACCOUNT),
        result.connections,
        result.took_us,
    )


def fired(session: int, word: pb.FailoverFired) -> FailoverFired:
    return FailoverFired(
        session,
        checked_text(word.name),
        checked_text(word.answer, LONGEST_ACCOUNT),
        word.stalled_ms,
        word.connections,
        word.monotonic_us,
    )


def _subflow(one: pb.Subflow) -> Subflow:
    return Subflow(
        local_address=canonical_address(one.local_address),
        local_port=one.local_port,
        remote_address=canonical_address(one.remote_address),
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
        return len(connections)  # too many: their subflows are not counted
    return max(len(connections), sum(len(one.subflows) for one in connections))
