# SPDX-License-Identifier: Apache-2.0
"""The thread that serves agents. The core posts orders to it and receives their reports.

agent ── TLS ──► listener ──► session ── post ──► core
                                 ▲                 │
                                 └──── perform ────┘
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_address

from controller.edges.agentlink.listener import AgentConnections, AgentListener, listening
from controller.edges.agentlink.session import Post
from controller.edges.agentlink.sessions import Sessions
from controller.edges.trust.admission import Familiar
from controller.edges.trust.authority import Trust
from controller.edges.trust.ledger import LIFETIME_S, LedgerEntry, check_name
from controller.edges.trust.refusals import AgencyError, Refusals, Refused, Try
from controller.model.settings import AgentService, Endpoint
from controller.protocol import orders
from controller.protocol.enrolment import Bind, Binding, EnrolledView, EnrolmentState, Invited, UnknownAgent, Vouched
from controller.protocol.orders import AgentEffect, Direct, Directive, HangUp, Tunnels
from controller.protocol.reports import Role
from controller.protocol.requests import Impossible, NotAnswered, OverrideResult

log = logging.getLogger(__name__)

# One wakeup serves all waiting calls: each is a system call that releases the interpreter lock.

Call = Callable[[], object]


class Calls:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Call] = deque()
        self._woken = False

    def put(self, call: Call) -> None:
        """Run `call` in the loop, unless it has closed."""
        self._waiting.append(call)
        if self._woken:
            return
        self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._make)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def _make(self) -> None:
        self._woken = False
        while self._waiting:
            self._loop.call_soon(self._waiting.popleft())


REVOKED_WITHIN_S = 5.0
AGED_EVERY_S = 3600.0  # certificates
SAVED_EVERY_S = 1.0  # retry of a revocation that could not be written
JOINING_WITHIN_S = 30.0

Vouch = Callable[[Vouched], None]  # called at each change of the valid certificates


class Agents:
    """The service for agents. Any thread may call its public methods."""

    def __init__(self, settings: AgentService, post: Post, bind: Bind, vouch: Vouch = lambda _: None) -> None:
        """Raise AgencyError if the directory or an address cannot be used."""
        self._bind, self._vouch = bind, vouch
        self._trust = Trust(settings.directory)
        self._refused = Refusals()
        self._guests: AgentConnections = set()
        self._listeners = {"listen": listening(settings.listen, "listen"), "join": listening(settings.join, "join")}
        self.listen, self.join = (_address(each) for each in self._listeners.values())
        self._loop = asyncio.new_event_loop()
        self._calls = Calls(self._loop)
        self._saving = asyncio.Handle(lambda: None, (), self._loop)
        self._sessions = Sessions(
            self._trust,
            self._guests,
            self._refused,
            lambda event, taken: post(event, lambda: self._calls.put(taken)),
            _as_reached(self.listen, self.join.host),
        )
        self._ready: Future[None] = Future()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="agents", daemon=True)

    def start(self) -> None:
        self._trust.ledger.tell(self._vouch)
        self._thread.start()
        self._ready.result()
        log.info("listening for agents at %s, for joins at %s", self.listen, self.join)

    def stop(self) -> None:
        """End every stream with a message that names the reason, then the thread."""
        self._calls.put(self._stopping.set)
        self._thread.join()
        with suppress(AgencyError):
            self._trust.ledger.save()

    # From the core

    def perform(self, effect: AgentEffect) -> None:
        match effect:
            case Direct(session) if self._sessions.revoked(session):
                pass  # the core learns of a revocation before the stream ends, and its orders hold the new keys
            case Direct(session, number, order):
                keyed = self._keyed(order)
                self._calls.put(lambda: self._sessions.order(session, number, keyed))
            case HangUp(session, reason, fault):
                self._calls.put(lambda: self._sessions.hang_up(session, reason, fault))

    def _keyed(self, order: Directive) -> Directive:
        of_meeting = self._trust.meeting_key
        match order:
            case Tunnels(tunnels):
                return replace(
                    order,
                    tunnels=tuple(replace(each, key=self._trust.key(each.vni, each.keys)) for each in tunnels),
                )
            case orders.AnswerProbes(sessions):
                return orders.AnswerProbes(tuple(replace(each, key=of_meeting(each.meeting)) for each in sessions))
            case orders.HealthProbes(paths):
                return orders.HealthProbes(tuple(replace(each, key=of_meeting(each.meeting)) for each in paths))
            case orders.Probe():
                return replace(order, key=of_meeting(order.meeting))
        return order

    # From people

    def invite(self, name: str, role: Role | None = None, terminal: str | None = None) -> Invited:
        try:
            check_name(name)
            bound = self._bind(name, role, terminal)
            invitation = self._trust.invite(name, bound)
        except (Refused, AgencyError) as error:
            raise Impossible(str(error)) from error
        log.info("created a token for agent %s (%s); it is single-use and valid for 15 minutes", name, bound)
        return Invited(name, invitation.token, invitation.until, str(self.join), bound.role, bound.terminal)

    def withdraw(self, name: str) -> OverrideResult:
        self._known(name)
        try:
            done = self._trust.ledger.withdraw(name)
        except AgencyError as error:
            raise Impossible(str(error)) from error
        if not done:
            return OverrideResult((f"{name} has no unused token",), False, 0)
        log.info("the token of agent %s is withdrawn", name)
        return OverrideResult((f"the token of {name} is withdrawn",), True, 0)

    def revoke(self, name: str) -> OverrideResult:
        known = self._known(name)
        since = self._trust.ledger.revoke(name)
        if known.revoked_at == since:
            return OverrideResult((f"{name} is already revoked",), False, 0, self._saved(name))
        peer = self._sessions.here().get(name)
        self._ended(name)
        ended = f"; its stream, from {peer}, has ended" if peer else ""
        log.info("agent %s is revoked%s", name, ended)
        return OverrideResult((f"{name} is revoked{ended}",), True, 0, self._saved(name))

    def _known(self, name: str) -> LedgerEntry:
        known = self._trust.ledger.entries()
        if name not in known:
            raise UnknownAgent(f"no agent is named {name!r}; there are: {', '.join(sorted(known)) or 'none'}")
        return known[name]

    def _saved(self, name: str) -> tuple[str, ...]:
        """Save, with retries. Return why it is not saved yet."""
        try:
            self._trust.ledger.save()
        except AgencyError as error:
            log.warning("the revocation of agent %s is not saved yet: %s", name, error)
            self._calls.put(self._save)
            return (f"the revocation is not saved: a restart of the controller would admit {name} again: {error}",)
        return ()

    def enrolled(self) -> tuple[EnrolledView, ...]:
        here, known = self._sessions.here(), sorted(self._trust.ledger.entries().items())
        return tuple(_view(name, entry, here.get(name), self._refused.last_try(name)) for name, entry in known)

    def refusals(self) -> dict[str, int]:
        return {reason.value: count for reason, count in self._refused.counts().items()}

    def _ended(self, name: str) -> None:
        done: Future[None] = Future()

        def revoke() -> None:
            self._sessions.revoke(name)
            done.set_result(None)

        self._calls.put(revoke)
        try:
            done.result(REVOKED_WITHIN_S)
        except TimeoutError:
            raise NotAnswered(f"{name} is refused from now on, but the end of its stream is not confirmed") from None

    # In the agents' thread

    def _save(self) -> None:
        self._saving.cancel()
        try:
            self._trust.ledger.save()
        except AgencyError:
            self._saving = self._loop.call_later(SAVED_EVERY_S, self._save)
        else:
            log.info("all revocations are saved")

    async def _keep_certificates(self) -> None:
        """Let certificates age while the controller runs, and renew those in use."""
        while True:
            await asyncio.sleep(AGED_EVERY_S)
            self._trust.ledger.passed(AGED_EVERY_S)
            with suppress(AgencyError):  # the next pass saves it
                await asyncio.to_thread(self._trust.ledger.save)
            await self._sessions.renew()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        at, noted = self._listeners, (self._guests, self._refused, Familiar())
        doors = (
            AgentListener(at["listen"], self._trust.for_sessions(), self._sessions.session, *noted),
            AgentListener(at["join"], self._trust.for_joining(), self._sessions.join, *noted, JOINING_WITHIN_S),
        )
        serving = [asyncio.create_task(door.serve()) for door in doors]
        serving.append(asyncio.create_task(self._keep_certificates()))
        self._ready.set_result(None)
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([stopping, *serving], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        await self._sessions.stop()
        for task in serving:
            task.cancel()
        outcomes = await asyncio.gather(*serving, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome


def _address(listener: socket.socket) -> Endpoint:
    host, port = listener.getsockname()[:2]
    return Endpoint(host, port)


def _as_reached(endpoint: Endpoint, requested: str) -> str:
    """Return HOST:PORT. A wildcard, or the host that the agent asked, is left out."""
    nowhere = ip_address(endpoint.host).is_unspecified or endpoint.host == requested
    return f":{endpoint.port}" if nowhere else str(endpoint)


def _view(name: str, entry: LedgerEntry, peer: str | None, tried: Try | None) -> EnrolledView:
    bound = _binding(entry)
    return EnrolledView(
        name=name,
        standing=_standing(entry, peer),
        peer=peer,
        certificate_until=time.time() + LIFETIME_S - entry.certificates[-1].age_s if entry.certificates else None,
        revoked_at=entry.revoked_at,
        token_until=next((each.until for each in entry.tokens if each.used_at is None), None),
        tried_at=tried.at if tried else None,
        tried_from=tried.peer if tried else None,
        role=bound.role if bound else None,
        terminal=bound.terminal if bound else None,
    )


def _binding(entry: LedgerEntry) -> Binding | None:
    """Return the newest certificate's binding, or else the newest token's."""
    if entry.certificates:
        return entry.certificates[-1].binding
    return entry.tokens[-1].binding if entry.tokens else None


def _standing(entry: LedgerEntry, peer: str | None) -> EnrolmentState:
    if peer is not None:
        return EnrolmentState.CONNECTED
    if entry.revoked_at is not None:
        return EnrolmentState.REVOKED
    return EnrolmentState.AWAY if entry.certificates else EnrolmentState.INVITED
