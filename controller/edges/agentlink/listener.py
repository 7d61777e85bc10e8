# SPDX-License-Identifier: Apache-2.0
"""The listener for agents: it ends TLS and passes the plain stream to gRPC.

gRPC's own TLS does not report refused peers. This listener knows a peer from its first byte and can disconnect it at
any moment. gRPC sees each peer as an abstract Unix socket name (unix(7)) that only the controller can have bound.

Peers without a certificate of our authority, and all on the join listener, have slots of their own
(edges/trust/admission.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import secrets
import socket
import ssl
import time
from dataclasses import dataclass

from controller.edges.trust.admission import Admission, Familiar, host_of, superfluous, too_often
from controller.edges.trust.authority import Shown, shown
from controller.edges.trust.refusals import AgencyError, Reason, Refusals
from controller.edges.trust.tls import CLOSED_WITHIN_S, HANDSHAKE_WITHIN_S, FrugalTls
from controller.model.settings import Endpoint

log = logging.getLogger(__name__)


async def received(
    sock: socket.socket,
    context: ssl.SSLContext,
    protocol: asyncio.Protocol,
    handshake_within_s: float,
    closed_within_s: float,
) -> None:
    """Do the TLS handshake, then connect `protocol`, like connect_accepted_socket."""
    loop = asyncio.get_running_loop()
    shaken: asyncio.Future[None] = loop.create_future()
    tls = FrugalTls(
        loop,
        protocol,
        context,
        shaken,
        server_side=True,
        ssl_handshake_timeout=handshake_within_s,  # type: ignore[arg-type]  # typeshed forgets fractions
        ssl_shutdown_timeout=closed_within_s,
    )
    plain, _ = await loop.connect_accepted_socket(lambda: tls, sock)
    try:
        await shaken
    except BaseException:
        plain.abort()
        raise


WAITING = 512  # backlog: all agents of a large house reconnect at once
EVERY_DESCRIPTOR_TAKEN_S = 1.0
MOST = 1024  # with a certificate
MOST_STRANGERS = 512  # without one yet
MOST_JOINING = 128  # unauthenticated, each with a gRPC connection; agents join one by one
MOST_OF_A_NAME = 4  # one stream, and dead connections of a broken network
DESCRIPTORS_EACH = 4  # network side, both ends of the Unix socket, and one unauthenticated peer


class AgentConnection:
    """An agent's connection."""

    def __init__(self, peer: str, certificate: Shown | None, outside: _End) -> None:
        self.peer, self.certificate = peer, certificate
        self._outside = outside

    @property
    def gone(self) -> bool:
        return self._outside.over.done()

    def leave(self, within_s: float) -> None:
        """Abort after `within_s`, so that sent data can arrive first."""
        asyncio.get_running_loop().call_later(within_s, self._outside.cut)


AgentConnections = dict[str, AgentConnection]  # by gRPC's peer name


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
        behind: int,
        guests: AgentConnections,
        refusals: Refusals,
        familiar: Familiar,
        stays_s: float | None = None,
    ) -> None:
        """`behind` is a descriptor (O_PATH) of gRPC's socket. `familiar` holds hosts of authenticated agents, at any
        listener.

        `stays_s` limits a connection's lifetime.
        """
        self._listener, self._context, self._behind = listener, context, behind
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
        outside = _End()
        try:
            await received(sock, self._context, outside, HANDSHAKE_WITHIN_S, CLOSED_WITHIN_S)
        except OSError as error:  # includes SSLError and the timeout's error
            self._refusals.note(slot.peer, Reason.HANDSHAKE, _why(error))
            _untie(error)
            return
        except asyncio.CancelledError as error:
            _untie(error)
            raise
        try:
            guest = AgentConnection(slot.peer, _certificate(outside.transport), outside)
            slot.strange = guest.certificate is None
            if guest.certificate is not None:
                self._familiar.add(slot.host)
            async with asyncio.timeout(self._stays_s):
                await self._lead_on(guest, outside)
        except TimeoutError:
            pass
        except OSError as error:
            log.error("agent from %s: cannot be forwarded to gRPC: %s", slot.peer, error)
        finally:
            outside.cut()

    async def _lead_on(self, guest: AgentConnection, outside: _End) -> None:
        if guest.certificate is not None and (crowd := self._crowd(guest.certificate.name)):
            self._refusals.note(guest.peer, Reason.CROWD, crowd, name=guest.certificate.name)
            return
        own = f"bicast-guest-{secrets.token_hex(16)}"
        known_as = f"unix-abstract:{own}"
        self._guests[known_as] = guest
        inside = _End()
        try:
            await _connect(own, self._behind, inside)
            outside.join(inside)
            await asyncio.wait([outside.over, inside.over], return_when=asyncio.FIRST_COMPLETED)
            inside.end()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSED_WITHIN_S):
                    outside.end()
                    await outside.over
        finally:
            inside.end()
            del self._guests[known_as]

    def _crowd(self, name: str) -> str | None:
        """Return why another connection with a certificate of this name is refused, or None."""
        names = [each.certificate.name for each in self._guests.values() if each.certificate is not None]
        if names.count(name) >= MOST_OF_A_NAME:
            return f"has {names.count(name)} connections open, the limit for one agent"
        if len(names) >= self._most:
            more = f"; with more descriptors (ulimit -n) up to {MOST}" if self._most < MOST else ""
            return f"{self._most} connections are open, the limit{more}"
        return None


class _End(asyncio.Protocol):
    """One side of a relayed connection, with backpressure to the other."""

    def __init__(self) -> None:
        self.over = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._other: _End | None = None
        self._ended = False
        self._early = bytearray()  # before the other side was joined

    def join(self, other: _End) -> None:
        for one, another in ((self, other), (other, self)):
            one._other = another
            another.transport.write(bytes(one._early))
            one._early.clear()
            one.transport.resume_reading()

    def end(self) -> None:
        """Close after all written data is sent."""
        if self._transport is not None and not self._ended:
            self._ended = True  # a second close would break a later abort in asyncio's TLS
            self._transport.close()

    def cut(self) -> None:
        if self._transport is not None and not self.over.done():
            self._transport.abort()

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.pause_reading()  # ineffective this early for plain transports of Python 3.11

    def data_received(self, data: bytes) -> None:
        if self._other is None:
            self._early += data
        else:
            self._other.transport.write(data)

    def pause_writing(self) -> None:
        if self._other is not None:
            self._other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._other is not None:
            self._other.transport.resume_reading()

    def connection_lost(self, _: Exception | None) -> None:
        if not self.over.done():
            self.over.set_result(None)


async def _connect(own: str, behind: int, inside: _End) -> None:
    loop = asyncio.get_running_loop()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.bind(f"\0{own}")
        await loop.sock_connect(sock, f"/proc/self/fd/{behind}")
        await loop.create_connection(lambda: inside, sock=sock)
    except BaseException:
        sock.close()
        raise


def _certificate(transport: asyncio.Transport) -> Shown | None:
    der = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return shown(der) if der else None


def _most_connections() -> int:
    """Return the connection limit of one listener. Both together use at most half of the descriptors."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if descriptors < 0 else min(MOST, descriptors // (4 * DESCRIPTORS_EACH))


def _untie(error: BaseException) -> None:
    """Break the cycle between a failure and asyncio's frames, which hold the buffers.

    Otherwise unauthenticated peers create cycles faster than the garbage collector runs.
    """
    one: BaseException | None = error
    while one is not None:
        one.__traceback__ = None
        one = one.__cause__ or one.__context__


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate was not issued by this controller ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"TLS handshake: {error.reason or type(error).__name__}"
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
