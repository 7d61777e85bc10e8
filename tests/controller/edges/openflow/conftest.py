# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from controller.edges.openflow.app import Wire
from controller.model.settings import Endpoint, LocalSocket, MutualTls
from controller.program.diff import Change
from controller.program.program import Installed
from controller.protocol.switch_messages import (
    Apply,
    Effect,
    Read,
    SwitchApplied,
    SwitchClosed,
    SwitchEvent,
    SwitchOpened,
    SwitchRead,
    SwitchRefused,
)
from tests.controller.edges.openflow.switches import PATIENCE_S, Ovs

T = TypeVar("T", bound=SwitchEvent)


ANY_PORT = Endpoint("127.0.0.1", 0)


class WireRecorder:
    """A core without logic: it keeps the events of the wire and sends the orders of a test."""

    def __init__(self, tls: MutualTls | None = None, listen: Endpoint | LocalSocket = ANY_PORT) -> None:
        self._inbox: queue.SimpleQueue[SwitchEvent] = queue.SimpleQueue()
        self._put_back: list[SwitchEvent] = []
        self._ticket = 0
        self.present: set[int] = set()  # sessions opened and not closed
        self.wire = Wire(listen, tls, self._post)

    @property
    def target(self) -> str:
        return f"tcp:{self.wire.address}"

    def _post(self, event: SwitchEvent) -> None:
        if isinstance(event, SwitchOpened):
            self.present.add(event.session)
        elif isinstance(event, SwitchClosed):
            self.present.remove(event.session)
        self._inbox.put(event)

    def wait(self, kind: type[T], fits: Callable[[T], bool] = lambda _: True, patience_s: float = PATIENCE_S) -> T:
        """Return the first matching event of this kind; keep the others."""
        deadline = time.monotonic() + patience_s
        for event in list(self._put_back):
            if isinstance(event, kind) and fits(event):
                self._put_back.remove(event)
                return event
        while True:
            try:
                event = self._inbox.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                raise AssertionError(f"no {kind.__name__} within {patience_s} s; there was {self._put_back}") from None
            if isinstance(event, kind) and fits(event):
                return event
            self._put_back.append(event)

    def drain(self) -> list[SwitchEvent]:
        while not self._inbox.empty():
            self._put_back.append(self._inbox.get())
        drained, self._put_back = self._put_back, []
        return drained

    def opened(self, dpid: int, patience_s: float = PATIENCE_S) -> SwitchOpened:
        return self.wait(SwitchOpened, lambda event: event.dpid == dpid, patience_s)

    def apply(self, session: int, *changes: Change) -> list[SwitchRefused]:
        """Return the refusals."""
        ticket = self._next()
        self.perform(Apply(session, ticket, changes))
        self.wait(SwitchApplied, lambda event: (event.session, event.ticket) == (session, ticket))
        refused = [event for event in self._put_back if isinstance(event, SwitchRefused) and event.session == session]
        self._put_back = [event for event in self._put_back if event not in refused]
        return refused

    def read(self, session: int) -> Installed:
        ticket = self._next()
        self.perform(Read(session, ticket))
        return self.wait(SwitchRead, lambda event: (event.session, event.ticket) == (session, ticket)).installed

    def perform(self, effect: Effect) -> None:
        self.wire.perform(effect)

    def _next(self) -> int:
        self._ticket += 1
        return self._ticket


@pytest.fixture(scope="package")
def ovs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ovs]:
    started = Ovs(tmp_path_factory.mktemp("ovs"))
    yield started
    started.stop()


@pytest.fixture
def recorder() -> Iterator[WireRecorder]:
    made = WireRecorder()
    yield made
    made.wire.stop()
    assert made.present == set(), "each opened session is closed once"


@pytest.fixture
def bridge(ovs: Ovs, recorder: WireRecorder) -> Iterator[SwitchOpened]:
    """Return bridge `br` with eight ports, connected and empty."""
    ovs.bridge("br", 0xB1, recorder.target, ports=8)
    yield recorder.opened(0xB1)
    ovs.remove("br")
