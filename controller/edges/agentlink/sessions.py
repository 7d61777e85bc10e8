# SPDX-License-Identifier: Apache-2.0
"""The streams of all agents: one per name, with quarantine.

The newest stream of a name does not replace the served one at once: a copied key could disconnect its phone repeatedly.
Nor is it refused: a phone that changed its network returns before its old connection is known to be dead. So the served
stream is first asked for a sign of life, as with two switches of one dpid.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from itertools import count
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from api import agent_pb2 as pb
from controller.edges.agentlink import decode, encode
from controller.edges.agentlink.listener import AgentConnections
from controller.edges.agentlink.session import AgentSession, Post, Stream, StreamEnd
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
LAST_WORDS_S = 1.0  # for the status to arrive before the cut

CODES = {
    Reason.NAME: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.TOKEN_UNKNOWN: grpc.StatusCode.UNAUTHENTICATED,
    Reason.TOKEN_USED: grpc.StatusCode.UNAUTHENTICATED,
    Reason.TOKEN_OLD: grpc.StatusCode.UNAUTHENTICATED,
    Reason.TOKEN_OF_ANOTHER: grpc.StatusCode.UNAUTHENTICATED,
    Reason.REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.REVOKED: grpc.StatusCode.PERMISSION_DENIED,
    Reason.REPLACED: grpc.StatusCode.PERMISSION_DENIED,
    Reason.ROLE: grpc.StatusCode.PERMISSION_DENIED,
    Reason.RIVAL: grpc.StatusCode.ALREADY_EXISTS,
    Reason.SILENCE: grpc.StatusCode.DEADLINE_EXCEEDED,
    Reason.FAULT: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.SPEECH: grpc.StatusCode.INVALID_ARGUMENT,
}


class Sessions:
    """The two services of api/agent.proto, in the agents' thread unless noted."""

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

    @property
    def session_handler(self) -> grpc.GenericRpcHandler:
        # Bytes distinguish a malformed message from a broken connection.
        handler: Any = grpc.stream_stream_rpc_method_handler(self._session, None, pb.FromController.SerializeToString)
        return grpc.method_handlers_generic_handler("bicast.agent.v1.Agents", {"Session": handler})

    @property
    def join_handler(self) -> grpc.GenericRpcHandler:
        handler: Any = grpc.unary_unary_rpc_method_handler(self._join, None, pb.JoinReply.SerializeToString)
        return grpc.method_handlers_generic_handler("bicast.agent.v1.Enrolment", {"Join": handler})

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
        served.end(grpc.StatusCode.FAILED_PRECONDITION, reason)

    def revoke(self, name: str) -> None:
        """End every connection with a certificate of this name, with or without a stream."""
        if served := self._served.get(name):
            served.end(grpc.StatusCode.PERMISSION_DENIED, f"the certificate of {name} was revoked")
        for guest in self._guests.values():
            if guest.certificate is not None and guest.certificate.name == name:
                guest.leave(LAST_WORDS_S)

    async def stop(self) -> None:
        ending = list(self._served.values())
        for session in ending:
            session.end(grpc.StatusCode.UNAVAILABLE, "the controller is stopping; its orders stay in force")
        for session in ending:
            await session.over.wait()

    # The services

    async def _session(self, _words: object, stream: Stream) -> None:
        guest = self._guests.get(stream.peer())
        if guest is None or guest.certificate is None:
            await stream.abort(
                grpc.StatusCode.PERMISSION_DENIED, "sessions use the other address, and need a certificate"
            )
        name = guest.certificate.name
        session = AgentSession(next(self._numbers), guest, guest.certificate, stream, self._post)
        try:
            await self._attend(session)
        except Refused as refused:
            self._refusals.note(guest.peer, refused.reason, str(refused), name=name)
            code, sentence = CODES[refused.reason], str(refused)
        except StreamEnd as ended:  # the core has received AgentClosed
            code, sentence = ended.code, str(ended)
        guest.leave(LAST_WORDS_S)
        await session.finished_saying()
        if code is not grpc.StatusCode.OK:
            await stream.abort(code, sentence)

    async def _attend(self, session: AgentSession) -> NoReturn:
        name, serial = session.name, session.certificate.serial
        self._trust.ledger.check(name, serial)
        self._quarantine.check(name, asyncio.get_running_loop().time())
        hello = await session.hello()
        opened = decode.opened(session.number, name, session.guest.peer, hello, session.certificate.binding)
        await self._make_room(session)
        self._trust.ledger.check(name, serial)  # it may have had to wait
        self._served[name] = self._numbered[session.number] = session
        try:
            self._used(session.certificate)
            await session.live(opened, hello)
        finally:
            del self._served[name], self._numbered[session.number]
            session.over.set()

    async def _make_room(self, newcomer: AgentSession) -> None:
        """Return when no agent of this name is served. No await follows the last check."""
        name, peer = newcomer.name, newcomer.guest.peer
        while (old := self._served.get(name)) is not None:
            if self._trust.ledger.newer(name, newcomer.certificate.serial, than=old.certificate.serial):
                sentence = f"{name} connected from {peer} with a newer certificate"
                old.end(grpc.StatusCode.PERMISSION_DENIED, sentence)
            elif await old.answers(ANSWERS_WITHIN_S):
                raise Refused(
                    Reason.RIVAL,
                    f"the agent {name} is already connected from {old.guest.peer} and answers, so two hosts use "
                    "one certificate: if both are yours, enrol each under its own name; otherwise revoke "
                    f"{name} on the controller",
                )
            else:
                sentence = f"silent for {ANSWERS_WITHIN_S:g} s when it reconnected from {peer}"
                old.end(grpc.StatusCode.ABORTED, sentence)
            await old.over.wait()

    def _used(self, one: Shown) -> None:
        try:
            self._trust.ledger.used(one.name, one.serial)
        except AgencyError as error:
            log.error("older certificates of %s stay valid: %s", one.name, error)

    async def _join(self, raw: bytes, context: Stream) -> pb.JoinReply:
        guest = self._guests.get(context.peer())
        if guest is None or guest.certificate is not None:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "joins use the other address")
        name = None
        try:
            request = _request(raw)
            name = request.name
            joined = await asyncio.to_thread(self._trust.join, name, request.token, request.signing_request)
        except Refused as refused:
            self._refusals.note(guest.peer, refused.reason, str(refused), claims=name)
            await context.abort(CODES[refused.reason], str(refused))
        except AgencyError as error:
            log.error("agent %s from %s cannot join: %s", name, guest.peer, error)
            await context.abort(
                grpc.StatusCode.UNAVAILABLE, "the controller cannot save the enrolment: its log shows why"
            )
        log.info("agent %s joined from %s", name, guest.peer)
        certificate, ca = joined
        return pb.JoinReply(certificate=certificate, ca=ca, session=self._sessions_at)


def _request(raw: bytes) -> pb.JoinRequest:
    try:
        return pb.JoinRequest.FromString(raw)
    except DecodeError:
        raise Refused(Reason.SPEECH, "sent bytes that do not decode as JoinRequest of api/agent.proto") from None
