# SPDX-License-Identifier: Apache-2.0
"""The agent listener of a controller, with a core in which the test decides when a report is processed."""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from controller.edges.agentlink.server import Agents
from controller.model.settings import AgentService, Endpoint
from controller.protocol.enrolment import Binding, Vouched, of_agent
from controller.protocol.reports import AgentClosed, AgentEvent, AgentOpened, Role
from tests.controller.edges.agentlink.agent import PATIENCE_S, Identity, Stream, StreamStatus, join

T = TypeVar("T", bound=AgentEvent)
ANYWHERE = Endpoint("127.0.0.1", 0)


def bind(name: str, role: Role | None, terminal: str | None) -> Binding:
    """Without gateway.yaml, an agent has the role that it asks for, usually that of `HELLO`."""
    return of_agent(name, role or Role.RELAY, terminal)


class FakeController:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.takes = True  # if False, messages are kept until `take`
        self.on_vouch: Callable[[Vouched], None] = lambda _: None  # runs before the ledger's change returns
        self._events: queue.SimpleQueue[AgentEvent] = queue.SimpleQueue()
        self._untaken: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._streams: list[Stream] = []
        self.agents = self._begin(ANYWHERE, ANYWHERE)

    def _begin(self, listen: Endpoint, join_at: Endpoint) -> Agents:
        settings = AgentService(listen, join_at, str(self.directory))
        agents = Agents(settings, self._post, bind, lambda vouched: self.on_vouch(vouched))
        agents.start()
        return agents

    def again(self) -> None:
        """Restart the controller in the same directory."""
        self.agents.stop()
        self.agents = self._begin(self.agents.listen, self.agents.join)

    def stop(self) -> None:
        for stream in self._streams:
            stream.close()
        self.agents.stop()

    @property
    def ca_pem(self) -> bytes:
        kept = (self.directory / "ca.pem").read_bytes()
        return kept[kept.index(b"-----BEGIN CERTIFICATE") :]

    def _post(self, event: AgentEvent, taken: Callable[[], None]) -> None:
        self._events.put(event)
        if self.takes:
            taken()
        else:
            self._untaken.put(taken)

    def take(self) -> None:
        self._untaken.get(timeout=PATIENCE_S)()

    def any_event(self) -> AgentEvent:
        return self._events.get(timeout=PATIENCE_S)

    def event(self, kind: type[T]) -> T:
        event = self.any_event()
        assert isinstance(event, kind), event
        return event

    def quiet(self) -> bool:
        """Return whether the core got no event that the test did not read."""
        return self._events.empty()

    def join(self, name: str, token: str, **other: bytes) -> Identity | StreamStatus:
        return join(self.agents.join, self.ca_pem, name, token, **other)

    def enrolled(self, name: str, role: Role | None = None, terminal: str | None = None) -> Identity:
        identity = self.join(name, self.agents.invite(name, role, terminal).token)
        assert isinstance(identity, Identity), identity
        return identity

    def stream(self, identity: Identity | None, reads: int | None = None) -> Stream:
        stream = Stream(self.agents.listen, self.ca_pem, identity, reads)
        self._streams.append(stream)
        return stream

    def served(self, identity: Identity) -> tuple[Stream, AgentOpened]:
        stream = self.stream(identity).welcomed()
        return stream, self.event(AgentOpened)

    def closed(self) -> AgentClosed:
        return self.event(AgentClosed)

    def closed_after_opening(self) -> AgentClosed:
        self.event(AgentOpened)
        return self.closed()


Log = queue.SimpleQueue[logging.LogRecord]


def refused(fake_controller: FakeController, log: Log, reason: str) -> str:
    """Check that one peer was refused, and counted under this reason alone. Return the log line, which names the
    peer.
    """
    line = log.get(timeout=PATIENCE_S).getMessage()
    assert " refused: " in line and "from 127.0.0.1:" in line
    assert {each: number for each, number in fake_controller.agents.refusals().items() if number} == {reason: 1}
    return line
