# SPDX-License-Identifier: Apache-2.0
"""A fake agent that flags, closes and reports MPTCP connections in memory.

Both ends share the object of a connection. Each end has its own flags and cannot clear the other's. A flagged subflow
carries data only if every subflow is flagged. Paths lose packets as a test orders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

from controller.protocol.orders import Arm, Direct, Disarm, Prefer, ReportEvery
from controller.protocol.reports import (
    AgentOpened,
    Capability,
    Connection,
    Cost,
    FailoverFired,
    PathManager,
    Reported,
    Resulted,
    Role,
    Subflow,
)

_ports, _tokens = count(20_000), count(1)


@dataclass
class SubflowEnd:
    """The counters and the flag of one end of a subflow."""

    backup: bool = False
    segments_sent: int = 0
    retransmits: int = 0
    bytes_acked: int = 0
    in_flight: int = 0
    since_ack_ms: int = 0


@dataclass
class FakeSubflow:
    address: str  # the terminal's
    port: int = field(default_factory=lambda: next(_ports))
    terminal: SubflowEnd = field(default_factory=SubflowEnd)
    server: SubflowEnd = field(default_factory=SubflowEnd)

    @property
    def backup(self) -> bool:
        return self.terminal.backup or self.server.backup


@dataclass
class FakeConnection:
    """A download. `server` is the address of the sender."""

    server: str
    subflows: list[FakeSubflow]
    token: int = field(default_factory=lambda: next(_tokens))

    @classmethod
    def between(cls, server: str, *addresses: str) -> FakeConnection:
        return cls(server, [FakeSubflow(address) for address in addresses])

    def carrying(self) -> list[FakeSubflow]:
        """Return the subflows that carry data. If all are flagged, all of them do."""
        return [each for each in self.subflows if not each.backup] or self.subflows

    def download(self, segments: int, ms: int = 1000, dead: Iterable[str] = (), loss: float = 0.0) -> None:
        """Send data on every path that carries. `dead` paths lose all of it, the others a share."""
        for subflow in self.carrying():
            end = subflow.server
            end.in_flight = 1
            if subflow.address in dead:
                end.since_ack_ms += ms
                end.segments_sent += 1
                end.retransmits += 1
            else:
                end.since_ack_ms = 1
                end.segments_sent += segments
                end.retransmits += int(segments * loss)
                end.bytes_acked += int(segments * (1 - loss)) * 1400


Mine = list[tuple[FakeSubflow, SubflowEnd]]  # with this host's end of each


class FakeHost:
    """One host with its agent. It sees the connections of the world that end at it."""

    def __init__(
        self,
        name: str,
        role: Role,
        addresses: tuple[str, ...],
        world: list[FakeConnection],
        path_manager: PathManager | None = None,
        unable: str | None = None,
        terminal: str | None = None,
        peer: str | None = None,
    ) -> None:
        self.peer = peer or f"{addresses[0] if addresses else '192.0.2.1'}:40000"
        self.terminal = terminal  # the terminal of its enrolment; None: the one of its name
        self.name, self.role, self.addresses, self.world = name, role, addresses, world
        by_role = PathManager.USERSPACE if role is Role.RELAY else PathManager.KERNEL
        self.path_manager = path_manager or by_role
        self.unable = unable
        self.fired = 0
        self.armed: dict[str, Arm] = {}
        self.orders: list[object] = []
        self.session = 0
        self._sequence = 0

    # Observations

    def ends(self) -> Iterator[tuple[FakeConnection, FakeSubflow, SubflowEnd]]:
        for connection in self.world:
            for subflow in connection.subflows:
                if self.role is not Role.RELAY and subflow.address in self.addresses:
                    yield connection, subflow, subflow.terminal
                if self.role is Role.RELAY and connection.server in self.addresses:
                    yield connection, subflow, subflow.server

    def opened(self, session: int) -> AgentOpened:
        self.session, self._sequence = session, 0
        moves = Capability("mptcp", self.unable is None, self.unable or "")
        reports = Capability("report", True, "")
        return AgentOpened(
            session,
            self.name,
            self.peer,
            self.role,
            self.path_manager,
            "fake",
            (reports, moves),
            self.addresses,
            self.terminal,
        )

    def report(self, interval_ms: int = 1000) -> Reported:
        self._sequence += 1
        found: dict[int, list[Subflow]] = {}
        for connection, subflow, end in self.ends():
            found.setdefault(connection.token, []).append(self._told(connection, subflow, end))
        serves = self.role is Role.RELAY
        connections = tuple(Connection(token, serves, tuple(subflows)) for token, subflows in found.items())
        return Reported(self.session, self._sequence, interval_ms, connections, Cost(1000, 10_000_000))

    def _told(self, connection: FakeConnection, subflow: FakeSubflow, end: SubflowEnd) -> Subflow:
        here, there = (subflow.address, subflow.port), (connection.server, 443)
        local, remote = (there, here) if self.role is Role.RELAY else (here, there)
        other = subflow.terminal if self.role is Role.RELAY else subflow.server
        return Subflow(
            local_address=local[0],
            local_port=local[1],
            remote_address=remote[0],
            remote_port=remote[1],
            backup_by_us=end.backup,
            backup_by_peer=other.backup,
            srtt_us=20_000,
            min_rtt_us=20_000,
            cwnd_segments=10,
            in_flight_segments=end.in_flight,
            segments_sent=end.segments_sent,
            retransmits=end.retransmits,
            bytes_acked=end.bytes_acked,
            bytes_received=other.bytes_acked,
            since_ack_ms=end.since_ack_ms,
        )

    # Orders

    def carry_out(self, direct: Direct) -> Resulted:
        self.orders.append(direct.order)
        connections, error = 0, None
        match direct.order:
            case Prefer():
                connections, error = self._prefer(direct.order)
            case Arm(name):
                self.armed[name] = direct.order
            case Disarm(name):
                self.armed.pop(name, None)
            case ReportEvery():
                pass
        said = error or f"{type(direct.order).__name__} is done"
        return Resulted(self.session, direct.directive, error is None, said, connections, 100)

    def fires(self, name: str, stalled_ms: int) -> FailoverFired:
        armed = self.armed.pop(name)
        connections, _ = self._prefer(Prefer(armed.fallback, (armed.watched,), hard=True))
        self.fired += 1
        return FailoverFired(self.session, name, "it fired", stalled_ms, connections, self.fired)

    def _prefer(self, order: Prefer) -> tuple[int, str | None]:
        others = {address for path in order.others for address in path}
        if self.unable:
            return 0, self.unable
        if self.role is Role.RELAY and self.path_manager is PathManager.KERNEL:
            return 0, "the kernel's path manager flags a path for every client of this host"
        reached, error = 0, None
        for connection in self.world:
            mine = [(subflow, end) for each, subflow, end in self.ends() if each is connection]
            wanted = [(subflow, end) for subflow, end in mine if subflow.address in order.path]
            left = [(subflow, end) for subflow, end in mine if subflow.address in others]
            if wanted:
                reached += 1
                error = self._switch(connection, wanted, left, order.hard) or error
            elif left:
                error = "none of the preferred paths is established"
        return reached, error

    def _switch(self, connection: FakeConnection, wanted: Mine, left: Mine, hard: bool) -> str | None:
        for _, end in wanted:
            end.backup = False
        if all(subflow.backup for subflow, _ in wanted) and not hard:
            return "it stays backup: the other end has flagged it"
        for subflow, end in left:
            end.backup = True
            if hard:
                connection.subflows.remove(subflow)
        return None
