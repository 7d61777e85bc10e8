"""What agents say: words of api/agent.proto as events of controller/reports.py. What is against the contract is named.

Nothing of what an agent says is believed to be well made: an address is one, and a text is short and can be shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from google.protobuf.message import DecodeError

from api import agent_pb2 as pb
from controller.agency import accounts, carrying, measuring, texts
from controller.agency.refusals import Reason, Refused
from controller.binding import Binding
from controller.reports import (
    MOST_SUBFLOWS,
    AgentOpened,
    Capability,
    Connection,
    Cost,
    PathManager,
    ReflexFired,
    Reported,
    Resulted,
    Role,
    Subflow,
)

MOST_BYTES = 4 << 20  # of one word; agents make none of more than half of it
MOST_OF_A_HOST = 64  # addresses, capabilities
MOST_OF_A_REPORT = 1 << 16  # connections, subflows: more than fit into what agents make, each with its addresses

_ROLES = {pb.ROLE_TERMINAL: Role.TERMINAL, pb.ROLE_GATEWAY: Role.GATEWAY, pb.ROLE_RELAY: Role.RELAY}
# Where it is not known the wider reach is assumed: flags by endpoint. What the host lacks, its capabilities say.
_PATH_MANAGERS = {pb.PATH_MANAGER_USERSPACE: PathManager.USERSPACE}


def heard(raw: bytes) -> pb.FromAgent:
    """One word of an agent."""
    if len(raw) > MOST_BYTES:
        raise texts.against(f"sent a word of {len(raw)} bytes: expected at most {MOST_BYTES}")
    try:
        word = pb.FromAgent.FromString(raw)
    except DecodeError:
        raise texts.against(f"sent {len(raw)} bytes that are no FromAgent of api/agent.proto") from None
    if word.WhichOneof("word") is None:
        raise texts.against("sent a word that says nothing which protocol 1 knows")
    return word


def opened(session: int, name: str, peer: str, hello: pb.Hello, binding: Binding | None) -> AgentOpened:
    """Return the hello as an event, or refuse it. `binding` is what the agent's certificate says that it is."""
    if hello.protocol < 1:
        raise texts.against(f"speaks protocol {hello.protocol}: expected 1 or more; install an agent of this version")
    if hello.role not in _ROLES:
        raise texts.against(f"has the role {hello.role}: expected terminal, gateway or relay")
    if max(len(hello.addresses), len(hello.capabilities)) > MOST_OF_A_HOST:
        raise texts.against(f"says hello with more than {MOST_OF_A_HOST} addresses or capabilities")
    role = _ROLES[hello.role]
    if binding is None or binding.role is not role:
        raise Refused(Reason.ROLE, _of_another_role(name, role, binding))
    return AgentOpened(
        session=session,
        name=name,
        peer=peer,
        role=role,
        path_manager=_PATH_MANAGERS.get(hello.path_manager, PathManager.KERNEL),
        version=texts.text(hello.version),
        capabilities=tuple(
            Capability(texts.text(one.name), one.available, texts.text(one.reason)) for one in hello.capabilities
        ),
        addresses=tuple(texts.address(one) for one in hello.addresses),
        terminal=binding.terminal,
    )


def _of_another_role(name: str, role: Role, binding: Binding | None) -> str:
    if binding is None:
        return f"the certificate of {name} says no role: `bicast enroll {name}` on the controller, and join again"
    return (
        f"{name} says that it is a {role}, and its certificate is for a {binding.role}: run it with "
        f"`--role {binding.role}`; or `bicast enroll {name} --role {role}` on the controller, and join again"
    )


def reported(session: int, role: Role, report: pb.Report) -> Reported:
    whole = role is Role.RELAY
    if whole and (of_report := _most_of(report.connections)) > MOST_OF_A_REPORT:
        raise texts.against(f"reports {of_report} connections or subflows: expected {MOST_OF_A_REPORT} at most")
    connections = tuple(_connections(report.connections, MOST_OF_A_REPORT if whole else MOST_SUBFLOWS))
    return Reported(
        session=session,
        sequence=report.sequence,
        interval_ms=report.interval_ms,
        connections=connections,
        cost=Cost(report.cost.cpu_us, report.cost.rss_bytes),
        elimination=accounts.elimination(report.elimination) if report.HasField("elimination") else None,
        tunnelling=accounts.tunnelling(report.tunnelling) if report.HasField("tunnelling") else None,
        capping=accounts.capping(report.capping, role) if report.HasField("capping") else None,
        answering=measuring.answering(report.answering) if report.HasField("answering") else None,
        health=measuring.health(report.health),
        relaying=carrying.relaying(report.relaying) if report.HasField("relaying") else None,
        taking=carrying.taking(report.taking) if report.HasField("taking") else None,
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


def resulted(session: int, result: pb.Result) -> Resulted:
    return Resulted(
        session,
        result.directive,
        result.done,
        texts.text(result.said, texts.LONGEST_ACCOUNT),
        result.connections,
        result.took_us,
    )


def fired(session: int, word: pb.Fired) -> ReflexFired:
    return ReflexFired(
        session,
        texts.text(word.name),
        texts.text(word.said, texts.LONGEST_ACCOUNT),
        word.stalled_ms,
        word.connections,
        word.monotonic_us,
    )


def _subflow(one: pb.Subflow) -> Subflow:
    return Subflow(
        local_address=texts.address(one.local_address),
        local_port=one.local_port,
        remote_address=texts.address(one.remote_address),
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
