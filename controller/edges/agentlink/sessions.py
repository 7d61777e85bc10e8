# SPDX-License-Identifier: Apache-2.0
"""The streams of all agents: one per name, with quarantine.

The newest stream of a name does not replace the served one at once: a copied key could disconnect its phone repeatedly.
Nor is it refused: a phone that changed its network returns before its old connection is known to be dead. So the served
stream is first asked for a sign of life, as with two switches of one dpid.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import NoReturn

from google.protobuf.message import DecodeError

from api import agent_pb2 as pb
from controller.edges.agentlink import decode, encode
from controller.edges.agentlink.connection import AgentConnection
from controller.edges.agentlink.listener import AgentConnections
from controller.edges.agentlink.session import LAST_WORDS_S, AgentSession, Post, StreamEnd
from controller.edges.trust.authority import Shown, Trust
from controller.edges.trust.refusals import AgencyError, Reason, Refusals, Refused
from controller.protocol.orders import Directive, Relay

log = logging.getLogger(__name__)

# Quarantine: an agent whose messages made the core fail twice within ten minutes is refused for ten minutes
#
# Each report may fail again, and the core serves no other agent while it formats a traceback.

WITHIN_S = 600.0
LASTS_S = 600.0
FAULTS = 2


class Quarantine:
    def __init__(self) -> None:
        self._faults: dict[str, tuple[float, ...]] = {}  # by name

    def fault(self, name: str, now: float) -> None:
        self._faults[name] = (*self._faults.get(name, ()), now)[-FAULTS:]

    def check(self, name: str, now: float) -> None:
        at = self._faults.get(name, ())
        if len(at) == FAULTS and at[-1] - at[0] <= WITHIN_S and now - at[-1] < LASTS_S:
            left_s = at[-1] + LASTS_S - now
            raise Refused(
                Reason.FAULT,
                f"messages of {name} made the controller fail {FAULTS} times: it is admitted again in {left_s:.0f} "
                "s; the controller's log shows where it failed: report this as an error in bicast",
            )


ANSWERS_WITHIN_S = 2.0
MOST_OF_A_REQUEST = 1 << 14  # bytes of a JoinRequest

CAUSES = {
    Reason.NAME: pb.End.REFUSED,
    Reason.TOKEN_UNKNOWN: pb.End.CREDENTIAL,
    Reason.TOKEN_USED: pb.End.CREDENTIAL,
    Reason.TOKEN_OLD: pb.End.CREDENTIAL,
    Reason.TOKEN_OF_ANOTHER: pb.End.CREDENTIAL,
    Reason.REQUEST: pb.End.REFUSED,
    Reason.REVOKED: pb.End.CREDENTIAL,
    Reason.REPLACED: pb.End.CREDENTIAL,
    Reason.ROLE: pb.End.CREDENTIAL,
    Reason.FAULT: pb.End.REFUSED,
}  # the others: PASSING


class Sessions:
    """The sessions and joins behind the two listeners, in the agents' thread unless noted."""

    def __init__(
        self, trust: Trust, guests: AgentConnections, refusals: Refusals, post: Post, sessions_at: str
    ) -> None:
        """`sessions_at` is the address in JoinReply.session."""
        self._trust, self._guests, self._refusals = trust, guests, refusals
        self._post, self._sessions_at = post, sessions_at
        self._numbers = count(1)
        self._quarantine = Quarantine()
        self._served: dict[str, AgentSession] = {}
        self._numbered: dict[
            int, AgentSession
        ] = {}  # the same by number; an ended one is in neither, and the core knows

    # From any thread

    def here(self) -> dict[str, str]:
        return {name: session.guest.peer for name, session in dict(self._served).items()}

    def revoked(self, session: int) -> bool:
        """Return whether the agent of a served session was revoked."""
        served = self._numbered.get(session)
        return served is not None and not self._trust.ledger.admits(served.name)

    # From the agents' thread

    def order(self, session: int, number: int, order: Directive) -> None:
        served = self._numbered.get(session)
        if served is None:
            return
        if isinstance(order, Relay) and order.port:
            order = replace(order, certificate=self._trust.relays(served.certificate))
        served.order(number, encode.directive(number, order))

    def hang_up(self, session: int, reason: str, fault: bool = False) -> None:
        served = self._numbered.get(session)
        if served is None:
            return
        if fault:
            self._refusals.note(served.guest.peer, Reason.FAULT, reason, name=served.name)
            self._quarantine.fault(served.name, asyncio.get_running_loop().time())
        served.end(reason, pb.End.REFUSED)

    def revoke(self, name: str) -> None:
        """End every connection with a certificate of this name, with or without a stream."""
        if served := self._served.get(name):
            served.end(f"the certificate of {name} was revoked", pb.End.CREDENTIAL)
        for guest in self._guests:
            if guest.certificate is not None and guest.certificate.name == name:
                guest.cut_after(LAST_WORDS_S)

    async def stop(self) -> None:
        ending = list(self._served.values())
        for session in ending:
            session.end("the controller is stopping; its orders stay in force")
        for session in ending:
            await session.over.wait()

    # The two listeners

    async def session(self, guest: AgentConnection) -> None:
        assert guest.certificate is not None  # the listener's TLS requires one
        session = AgentSession(next(self._numbers), guest, guest.certificate, self._post)
        try:
            await session.finish(await self._end_of(session))
        finally:
            session.drop()

    async def _end_of(self, session: AgentSession) -> pb.FromController:
        try:
            await self._attend(session)
        except Refused as refused:
            self._refusals.note(session.guest.peer, refused.reason, str(refused), name=session.name)
            return encode.end(CAUSES.get(refused.reason, pb.End.PASSING), str(refused))
        except StreamEnd as ended:  # the core has received AgentClosed
            return encode.end(ended.cause, str(ended))

    async def _attend(self, session: AgentSession) -> NoReturn:
        name, serial = session.name, session.certificate.serial
        self._trust.ledger.check(name, serial)
        self._quarantine.check(name, asyncio.get_running_loop().time())
        hello = await session.hello()
        opened = decode.opened(session.number, name, session.guest.peer, hello, session.certificate.binding)
        if hello.tunnel_keys:
            await self._bind(session, tuple(hello.tunnel_keys))
        await self._make_room(session)
        self._trust.ledger.check(name, serial)  # it may have had to wait
        self._served[name] = self._numbered[session.number] = session
        try:
            self._used(session.certificate)
            renewing = asyncio.create_task(self._renew(session))  # after its welcome
            try:
                await session.live(opened, hello)
            finally:
                renewing.cancel()
        finally:
            del self._served[name], self._numbered[session.number]
            session.over.set()

    async def _bind(self, session: AgentSession, tunnel_keys: tuple[bytes, ...]) -> None:
        self._trust.ledger.bind(session.name, session.certificate.serial, tunnel_keys)
        try:
            await asyncio.to_thread(self._trust.ledger.save)
        except AgencyError as error:
            log.error("the public keys of %s are not saved: %s", session.name, error)

    async def _make_room(self, newcomer: AgentSession) -> None:
        """Return when no agent of this name is served. No await follows the last check."""
        name, peer = newcomer.name, newcomer.guest.peer
        while (old := self._served.get(name)) is not None:
            if self._trust.ledger.newer(name, newcomer.certificate.serial, than=old.certificate.serial):
                sentence = f"{name} connected from {peer} with a newer certificate"
                old.end(sentence, pb.End.CREDENTIAL)
            elif await old.answers(ANSWERS_WITHIN_S):
                raise Refused(
                    Reason.RIVAL,
                    f"the agent {name} is already connected from {old.guest.peer} and answers, so two hosts use "
                    "one certificate: if both are yours, enrol each under its own name; otherwise revoke "
                    f"{name} on the controller",
                )
            else:
                sentence = f"silent for {ANSWERS_WITHIN_S:g} s when it reconnected from {peer}"
                old.end(sentence)
            await old.over.wait()

    async def renew(self) -> None:
        """Renew old certificates, and end the sessions of those that are no longer valid."""
        for session in list(self._served.values()):
            await self._renew(session)

    async def _renew(self, session: AgentSession) -> None:
        one = session.certificate
        try:
            self._trust.ledger.check(one.name, one.serial)
            certificate = await asyncio.to_thread(self._trust.renewed, one)  # it waits for the disk
        except Refused as refused:
            session.end(str(refused), CAUSES[refused.reason])
        except AgencyError as error:
            log.error("the certificate of %s is not renewed yet: %s", one.name, error)
        else:
            if certificate is not None:
                log.info("agent %s gets a new certificate", one.name)
                session.renew(certificate)

    def _used(self, one: Shown) -> None:
        try:
            self._trust.ledger.used(one.name, one.serial)
        except AgencyError as error:
            log.error("older certificates of %s stay valid: %s", one.name, error)

    async def join(self, guest: AgentConnection) -> None:
        answer = await self._joined(guest)
        if answer is not None:
            with suppress(OSError):
                await guest.send(answer.SerializeToString())

    async def _joined(self, guest: AgentConnection) -> pb.JoinAnswer | None:
        name = None
        try:
            raw = await guest.receive(MOST_OF_A_REQUEST)
            if raw is None:
                return None
            request = _request(raw)
            name = request.name
            joined = await asyncio.to_thread(self._trust.join, name, request.token, request.signing_request)
        except Refused as refused:
            self._refusals.note(guest.peer, refused.reason, str(refused), claims=name)
            cause = CAUSES.get(refused.reason, pb.End.PASSING)
            return pb.JoinAnswer(refused=pb.End(cause=cause, reason=str(refused)))
        except AgencyError as error:
            log.error("agent %s from %s cannot join: %s", name, guest.peer, error)
            reason = "the controller cannot save the enrolment: its log shows why"
            return pb.JoinAnswer(refused=pb.End(reason=reason))
        log.info("agent %s joined from %s", name, guest.peer)
        certificate, ca = joined
        return pb.JoinAnswer(joined=pb.JoinReply(certificate=certificate, ca=ca, session=self._sessions_at))


def _request(raw: bytes) -> pb.JoinRequest:
    try:
        return pb.JoinRequest.FromString(raw)
    except DecodeError:
        raise Refused(Reason.SPEECH, "sent bytes that do not decode as JoinRequest of api/agent.proto") from None
