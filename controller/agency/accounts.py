"""What agents report of what they hold: copies, tunnels and caps."""

from __future__ import annotations

from collections.abc import Sequence

from api import agent_pb2 as pb
from controller.agency import texts
from controller.reports import Capping, Elimination, Passing, PathCopies, Role, TunnelEnd, Tunnelling

MOST_OF_A_KIND = 64  # paths, tunnels, ports
MOST_PASSING = 4096  # at a gateway; its agent tells of no more
MOST_PORTS = 257  # without a program that holds windows: as many as one order has, and "all"


def elimination(one: pb.Elimination) -> Elimination:
    if max(len(one.paths), len(one.missing), *(len(path.skew) for path in one.paths), 0) > MOST_OF_A_KIND:
        raise texts.against(f"tells of more than {MOST_OF_A_KIND} paths, ports or skews of copies")
    if len({path.name for path in one.paths}) < len(one.paths):
        raise texts.against("tells twice of one path of copies")
    return Elimination(
        window_us=one.window_us,
        paths=tuple(
            PathCopies(
                name=texts.text(path.name),
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
        raise texts.against(f"tells of more than {MOST_OF_A_KIND} tunnels or ports")
    if len({end.name for end in one.ends}) < len(one.ends):
        raise texts.against("tells twice of one tunnel")
    return Tunnelling(
        ends=tuple(
            TunnelEnd(
                name=texts.text(end.name),
                because=texts.text(end.because),
                peer=texts.text(end.peer),
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


def capping(one: pb.Capping, role: Role) -> Capping:
    most = MOST_PASSING if role is Role.GATEWAY else 0
    if len(one.passing) > most or len(one.missing) > MOST_PORTS:
        raise texts.against(f"tells of more than {most} connections that pass a {role}, or {MOST_PORTS} ports")
    return Capping(texts.text(one.hand), one.held, _missing(one.missing), tuple(_passing(each) for each in one.passing))


def _passing(one: pb.Passing) -> Passing:
    return Passing(
        terminal_address=texts.address(one.terminal_address),
        terminal_port=one.terminal_port,
        other_address=texts.address(one.other_address),
        other_port=one.other_port,
        bytes_sent=one.bytes_sent,
        srtt_us=one.srtt_us,
        min_rtt_us=one.min_rtt_us,
        since_data_ms=one.since_data_ms,
        joined=one.joined,
        has_scale=one.has_scale,
    )


def _missing(ports: Sequence[pb.Missing]) -> tuple[tuple[str, str], ...]:
    return tuple((texts.text(each.port), texts.text(each.because)) for each in ports)
