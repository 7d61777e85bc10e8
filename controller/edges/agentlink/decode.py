# SPDX-License-Identifier: Apache-2.0
"""The decoder of api/agent.proto. It names each breach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from ipaddress import ip_address, ip_network
from itertools import islice

from google.protobuf.message import DecodeError

from api import agent_pb2 as pb
from controller.edges.agentlink.codec import breach, canonical_address, checked_text, reader
from controller.edges.trust.refusals import Reason, Refused
from controller.model.overrides import MOST_RELAYS, PREFIXES
from controller.protocol.enrolment import TUNNEL_KEY_BYTES, TUNNEL_KEYS, Binding
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
    InterceptionReport,
    InterfaceCounters,
    LanDevice,
    PathHealth,
    PathManager,
    PendingDestination,
    ProbePacket,
    ProbeReport,
    RelayReport,
    Reported,
    Resulted,
    Role,
    Router,
    Subflow,
    Tunnelling,
)

LONGEST_ACCOUNT = 4000  # one sentence for each of some forty paths
MOST_BYTES = 4 << 20  # agents send at most half
MOST_OF_A_HOST = 64  # addresses, capabilities
MOST_OF_A_REPORT = 1 << 16  # connections or subflows: more than an agent's largest message has
MOST_INTERFACES = 1024
MOST_DEVICES = 1024  # with leases
MOST_PASSING = 4096  # at a gateway
MOST_PORTS = 257  # ports without the window program: as many as one order names, and "all"
MOST_HEALTH_PATHS = 64
MOST_WINDOWS = 8
MOST_PACKETS = 20_000  # per probe
LONGEST_BYTES = 65_507  # UDP payload
LATEST_NS = 3600 * 10**9  # since the origin
TRANSPORTS = ("udp", "udp6")
MOST_TERMINALS = 250
MOST_DISTANCES = 64
MOST_PENDING = 64
MOST_ROUTERS = 30
LONGEST_RTT_US = 60_000_000  # longer than an agent waits

_ROLES = {pb.ROLE_TERMINAL: Role.TERMINAL, pb.ROLE_GATEWAY: Role.GATEWAY, pb.ROLE_RELAY: Role.RELAY}
# An unknown manager counts as the kernel's, whose flags by endpoint reach more.
_PATH_MANAGERS = {pb.PATH_MANAGER_USERSPACE: PathManager.USERSPACE}


def _account(text: str) -> str:
    return checked_text(text, LONGEST_ACCOUNT)


def _rtt_us(rtt_us: int) -> int:
    if rtt_us > LONGEST_RTT_US:
        raise breach(f"reported a round trip of {rtt_us} us: expected at most {LONGEST_RTT_US}")
    return rtt_us


def _routers(routers: Sequence[pb.Router]) -> tuple[Router, ...]:
    if len(routers) > MOST_ROUTERS:
        raise breach(f"reported {len(routers)} routers on one path: expected at most {MOST_ROUTERS}")
    return tuple(map(_router, routers))


def _all_distances(distances: Sequence[pb.Distance]) -> tuple[Distance, ...]:
    if len(distances) > MOST_DISTANCES:
        raise breach(f"probed {len(distances)} addresses: expected at most {MOST_DISTANCES}")
    return tuple(map(_distance, distances))


def _pending(wanted: Sequence[pb.PendingDestination]) -> tuple[PendingDestination, ...]:
    if len(wanted) > MOST_PENDING:
        raise breach(f"reported {len(wanted)} wanted destinations: expected at most {MOST_PENDING}")
    return tuple(found for each in wanted if (found := _pending_destination(each.prefix, each.address, each.port)))


_capability, _cost, _subflow = reader(Capability), reader(Cost), reader(Subflow)
_elimination, _tunnelling, _answering = reader(Elimination), reader(Tunnelling), reader(Answering)
_capping = reader(Capping, most={"missing": MOST_PORTS, "passing": MOST_PASSING})
_health = reader(PathHealth, most={"windows": MOST_WINDOWS})
_interface, _device = reader(InterfaceCounters), reader(LanDevice)
relay_report = reader(RelayReport, busy_percent=lambda percent: min(percent, 100))
_interception = reader(InterceptionReport, most={"relays": MOST_RELAYS, "terminals": MOST_TERMINALS}, pending=_pending)
_router = reader(Router, rtt_us=_rtt_us)
_distance = reader(Distance, rtt_us=_rtt_us, routers=_routers)
_distances = reader(DistancesMeasured, distances=_all_distances)
_resulted, _fired = reader(Resulted, answer=_account), reader(FailoverFired, answer=_account)


# Names are unique, and counts do not contradict each other


def elimination(one: pb.Elimination) -> Elimination:
    _check_once((path.name for path in one.paths), "path of copies")
    return _elimination(one)


def tunnelling(one: pb.Tunnelling) -> Tunnelling:
    _check_once((end.name for end in one.ends), "tunnel")
    return _tunnelling(one)


def capping(one: pb.Capping, role: Role) -> Capping:
    if one.passing and role is not Role.GATEWAY:
        raise breach(f"reported {len(one.passing)} connections through a {role}: expected none")
    return _capping(one)


def health(paths: Sequence[pb.PathHealth]) -> tuple[PathHealth, ...]:
    if len(paths) > MOST_HEALTH_PATHS:
        raise breach(f"reported the health of {len(paths)} paths: expected at most {MOST_HEALTH_PATHS}")
    _check_once((path.name for path in paths), "path's health")
    for path in paths:
        _check_counts(path.name, path)
        for window in path.windows:
            _check_counts(path.name, window)
    return tuple(map(_health, paths))


def _check_counts(name: str, one: pb.PathHealth | pb.HealthWindow) -> None:
    if one.lost > one.sent or one.lost_there + one.lost_back > one.lost:
        lost = f"{one.lost} lost of {one.sent}, {one.lost_there} there and {one.lost_back} back"
        raise breach(f"reported {lost} for {checked_text(name)}: expected no part larger than the whole")


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
        packets=tuple(_packets(columns)),
    )


def _packets(columns: Sequence[Sequence[int]]) -> Iterator[ProbePacket]:
    for train, length, *times in zip(*columns, strict=True):
        yield ProbePacket(train, length, *(at - 1 if at else None for at in times))


# Only global unicast addresses count: otherwise a gateway could make a relay send to hosts of the relay's own network.


def interception_report(one: pb.InterceptionReport) -> InterceptionReport:
    _check_once((relay.name for relay in one.relays), "relay")
    _check_once((terminal.name for terminal in one.terminals), "intercepted terminal")
    return _interception(one)


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
    return _distances(word, session)


def _check_once(names: Iterable[str], what: str) -> None:
    known = list(names)
    if len(set(known)) < len(known):
        raise breach(f"reported one {what} twice")


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
    _check_tunnel_keys(role, hello.tunnel_keys)
    if binding is None or binding.role is not role:
        raise Refused(Reason.ROLE, _of_another_role(name, role, binding))
    return AgentOpened(
        session=session,
        name=name,
        peer=peer,
        role=role,
        path_manager=_PATH_MANAGERS.get(hello.path_manager, PathManager.KERNEL),
        version=checked_text(hello.version),
        capabilities=tuple(map(_capability, hello.capabilities)),
        addresses=tuple(canonical_address(one) for one in hello.addresses),
        terminal=binding.terminal,
    )


def _check_tunnel_keys(role: Role, keys: Sequence[bytes]) -> None:
    if keys and (role is not Role.GATEWAY or [*map(len, keys)] != [TUNNEL_KEY_BYTES] * TUNNEL_KEYS):
        raise breach(
            f"showed {len(keys)} public keys for tunnels: expected {TUNNEL_KEYS} of {TUNNEL_KEY_BYTES} bytes from a "
            "gateway, and none from others"
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
        cost=_cost(report.cost),
        elimination=elimination(report.elimination) if report.HasField("elimination") else None,
        tunnelling=tunnelling(report.tunnelling) if report.HasField("tunnelling") else None,
        capping=capping(report.capping, role) if report.HasField("capping") else None,
        answering=_answering(report.answering) if report.HasField("answering") else None,
        health=health(report.health),
        relay=relay_report(report.relay) if report.HasField("relay") else None,
        interception=interception_report(report.interception) if report.HasField("interception") else None,
        interfaces=tuple(map(_interface, report.interfaces[:MOST_INTERFACES])) if role is Role.GATEWAY else (),
        devices=tuple(map(_device, report.devices[:MOST_DEVICES])) if role is Role.GATEWAY else (),
        cut=_is_cut(report.connections, connections),
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
    return _resulted(result, session)


def fired(session: int, word: pb.FailoverFired) -> FailoverFired:
    return _fired(word, session)


def _most_of(connections: Sequence[pb.Connection]) -> int:
    if len(connections) > MOST_OF_A_REPORT:
        return len(connections)  # too many: their subflows are not counted
    return max(len(connections), sum(len(one.subflows) for one in connections))
