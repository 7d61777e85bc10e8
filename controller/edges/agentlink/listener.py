# SPDX-License-Identifier: Apache-2.0
"""The listener for agents. It knows a peer from its first byte, and can disconnect it at any moment.

Peers without a certificate of our authority, and all on the join listener, have slots of their own
(edges/trust/admission.py).
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from controller.edges.agentlink.connection import AgentConnection
from controller.edges.trust.admission import Admission, Familiar, host_of, superfluous, too_often
from controller.edges.trust.refusals import AgencyError, Reason, Refusals
from controller.edges.trust.tls import HANDSHAKE_WITHIN_S
from controller.model.settings import Endpoint

log = logging.getLogger(__name__)


WAITING = 512  # backlog: all agents of a large house reconnect at once
EVERY_DESCRIPTOR_TAKEN_S = 1.0
MOST = 1024  # with a certificate
MOST_STRANGERS = 512  # without one yet
MOST_JOINING = 128  # unauthenticated; agents join one by one
MOST_OF_A_NAME = 4  # one stream, and dead connections of a broken network
ENDED_WITHIN_S = 2.0  # at a stop
DESCRIPTORS_EACH = 2  # an agent, and one unauthenticated peer


AgentConnections = set[AgentConnection]  # that have done their handshake
Serve = Callable[[AgentConnection], Awaitable[None]]


@dataclass(slots=True, eq=False)
class ConnectionSlot:
    """A slot, held from before the handshake."""

    host: str
    peer: str
    attended: asyncio.Task[None] | None = None
    strange: bool = True
    sent_away: bool = False


class AgentListener:
    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext,
        serve: Serve,
        guests: AgentConnections,
        refusals: Refusals,
        familiar: Familiar,
        stays_s: float | None = None,
    ) -> None:
        """`familiar` holds hosts of authenticated agents, at any listener. `stays_s` limits a connection's lifetime."""
        self._listener, self._context, self._serve = listener, context, serve
        self._guests, self._refusals = guests, refusals
        self._familiar = familiar
        self._admission = Admission(familiar, time.monotonic())
        self._stays_s = stays_s
        self._most = _most_connections()
        strangers = MOST_STRANGERS if context.verify_mode is ssl.CERT_REQUIRED else MOST_JOINING
        self._most_strangers = min(strangers, self._most)
        self._places: dict[ConnectionSlot, None] = {}  # oldest first

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        try:
            while True:
                try:
                    sock, address = await loop.sock_accept(self._listener)
                except OSError as error:
                    log.error("cannot accept an agent's connection: %s", error)
                    await asyncio.sleep(EVERY_DESCRIPTOR_TAKEN_S)  # an immediate retry would fail too
                    continue
                place = ConnectionSlot(host_of(address[0]), str(Endpoint(*address[:2])))
                if self._admission.admits(place.host, time.monotonic()):
                    self._receive(sock, place)
                else:
                    sock.close()
                    self._refusals.note(place.peer, Reason.RATE, too_often())
                await asyncio.sleep(0)  # sock_accept does not yield while the backlog is not empty
        finally:
            self._listener.close()
            served = [place.attended for place in self._places if place.attended and not place.strange]
            if served:  # their last messages are on the way
                await asyncio.wait(served, timeout=ENDED_WITHIN_S)
            present = [place.attended for place in self._places if place.attended]
            for task in present:
                task.cancel()
            await asyncio.gather(*present, return_exceptions=True)

    def _receive(self, sock: socket.socket, slot: ConnectionSlot) -> None:
        self._places[slot] = None
        slot.attended = asyncio.create_task(self._attend(sock, slot))
        slot.attended.add_done_callback(lambda _: self._places.pop(slot))
        most = self._most_strangers
        strangers = [each for each in self._places if each.strange and not each.sent_away]
        oldest = superfluous(strangers, most, self._familiar)
        if oldest is not None:
            assert oldest.attended is not None
            oldest.sent_away = True
            oldest.attended.cancel()
            sentence = f"was the oldest of more than {most} connections that had not sent a request"
            self._refusals.note(oldest.peer, Reason.CROWD, sentence)

    async def _attend(self, sock: socket.socket, slot: ConnectionSlot) -> None:
        with sock:
            guest = AgentConnection(sock, slot.peer, self._context)
            try:
                async with asyncio.timeout(HANDSHAKE_WITHIN_S):
                    await guest.handshake()
            except OSError as error:  # includes SSLError and the timeout's error
                self._refusals.note(slot.peer, Reason.HANDSHAKE, _why(error))
                return
            slot.strange = guest.certificate is None
            if guest.certificate is not None:
                self._familiar.add(slot.host)
                if crowd := self._crowd(guest.certificate.name):
                    self._refusals.note(slot.peer, Reason.CROWD, crowd, name=guest.certificate.name)
                    return
            self._guests.add(guest)
            try:
                async with asyncio.timeout(self._stays_s):
                    await self._serve(guest)
                    await guest.close()
            except TimeoutError:
                pass
            finally:
                self._guests.remove(guest)

    def _crowd(self, name: str) -> str | None:
        """Return why another connection with a certificate of this name is refused, or None."""
        names = [each.certificate.name for each in self._guests if each.certificate is not None]
        if names.count(name) >= MOST_OF_A_NAME:
            return f"has {names.count(name)} connections open, the limit for one agent"
        if len(names) >= self._most:
            more = f"; with more descriptors (ulimit -n) up to {MOST}" if self._most < MOST else ""
            return f"{self._most} connections are open, the limit{more}"
        return None


def _most_connections() -> int:
    """Return the connection limit of one listener. Both together use at most half of the descriptors."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if descriptors < 0 else min(MOST, descriptors // (4 * DESCRIPTORS_EACH))


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate was not issued by this controller ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"TLS handshake: {error.reason or type(error).__name__}"
    if isinstance(error, TimeoutError):
        return f"TLS handshake: not finished within {HANDSHAKE_WITHIN_S:g} seconds"
    return f"TLS handshake: {str(error) or type(error).__name__}"


def listening(endpoint: Endpoint, key: str) -> socket.socket:
    """Raise AgencyError on failure. `key` is the address' key in gateway.yaml."""
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    try:
        return socket.create_server((endpoint.host, endpoint.port), family=family, backlog=WAITING)
    except OSError as error:
        raise AgencyError(
            f"cannot listen for agents at {endpoint} ({error.strerror}): set controller.agents.{key} to a free "
            "address and port of this machine"
        ) from error
