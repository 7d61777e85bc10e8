# SPDX-License-Identifier: Apache-2.0
"""The listener for agents: it ends TLS and passes the plain stream to the gRPC server behind it.

gRPC's own TLS does not report whom it refused. Here a peer is known from its first byte, and can be disconnected at any
moment. The gRPC server has no network address: each connection reaches it from an end that only the controller can have
bound (an abstract name of unix(7)), and that name tells gRPC which peer it serves.

A peer without a certificate of ours is unauthenticated; on the listener where agents join it stays so to the end. Such
peers have slots of their own, and each newcomer may evict one of them (edges/trust/admission.py).
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
from asyncio.sslproto import SSLProtocol
from dataclasses import dataclass

from controller.edges.trust.admission import Admission, Familiar, host_of, superfluous, too_often
from controller.edges.trust.authority import Shown, shown
from controller.edges.trust.refusals import AgencyError, Reason, Refusals
from controller.model.settings import Endpoint

log = logging.getLogger(__name__)

# TLS with small buffers
#
# asyncio's TLS has a buffer of 256 KiB from before the first byte: two listeners full of unauthenticated peers took a
# quarter of a gigabyte. A small buffer holds a usual report, and a long one fills it more than once. The rest, some 50
# KiB during a handshake, belongs to OpenSSL.

BUFFER_BYTES = 4 << 10


class _Tls(SSLProtocol):
    max_size = BUFFER_BYTES


async def received(
    sock: socket.socket,
    context: ssl.SSLContext,
    protocol: asyncio.Protocol,
    handshake_within_s: float,
    closed_within_s: float,
) -> None:
    """As the loop's connect_accepted_socket: `protocol` has its connection when it returns."""
    loop = asyncio.get_running_loop()
    shaken: asyncio.Future[None] = loop.create_future()
    tls = _Tls(
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


HANDSHAKE_WITHIN_S = 5.0
CLOSED_WITHIN_S = 2.0
WAITING = 512  # all agents of a large house, come back at once
EVERY_DESCRIPTOR_TAKEN_S = 1.0
MOST = 1024  # with a certificate
MOST_STRANGERS = 512  # on their way to show one
MOST_JOINING = 128  # who stay strangers, each with gRPC behind it: people join one by one
MOST_OF_A_NAME = 4  # one stream, and what a broken network has left
DESCRIPTORS_EACH = 4  # one outside and two inside, and one of a stranger


class AgentConnection:
    """One connection that came in."""

    def __init__(self, peer: str, certificate: Shown | None, outside: _End) -> None:
        self.peer, self.certificate = peer, certificate
        self._outside = outside

    @property
    def gone(self) -> bool:
        return self._outside.over.done()

    def leave(self, within_s: float) -> None:
        """Out, after what was sent before had its time to get there."""
        asyncio.get_running_loop().call_later(within_s, self._outside.cut)


AgentConnections = dict[str, AgentConnection]  # by the peer that gRPC knows them as


@dataclass(slots=True, eq=False)
class ConnectionSlot:
    """What a connection takes up, from before its handshake to after its end."""

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
        """`behind` is a descriptor (O_PATH) of the socket at which gRPC listens; `familiar` are hosts from which agents
        with a certificate came, at any listener; `stays_s` for how long a connection may be open."""
        self._listener, self._context, self._behind = listener, context, behind
        self._guests, self._refusals = guests, refusals
        self._familiar = familiar
        self._admission = Admission(familiar, time.monotonic())
        self._stays_s = stays_s
        self._most = _most_connections()
        strangers = MOST_STRANGERS if context.verify_mode is ssl.CERT_REQUIRED else MOST_JOINING
        self._most_strangers = min(strangers, self._most)
        self._places: dict[ConnectionSlot, None] = {}  # in the order in which they were taken

    async def serve(self) -> None:
        """Until it is cancelled; all that came in ends then."""
        loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        try:
            while True:
                try:
                    sock, address = await loop.sock_accept(self._listener)
                except OSError as error:
                    log.error("cannot take an agent's connection: %s", error)
                    await asyncio.sleep(EVERY_DESCRIPTOR_TAKEN_S)  # the next try would fail likewise
                    continue
                place = ConnectionSlot(host_of(address[0]), str(Endpoint(*address[:2])))
                if self._admission.admits(place.host, time.monotonic()):
                    self._receive(sock, place)
                else:
                    sock.close()
                    self._refusals.note(place.peer, Reason.RATE, too_often())
                await asyncio.sleep(0)  # while others wait to be taken, sock_accept lets nobody else have a turn
        finally:
            self._listener.close()
            present = [place.attended for place in self._places if place.attended]
            for task in present:
                task.cancel()
            await asyncio.gather(*present, return_exceptions=True)

    def _receive(self, sock: socket.socket, place: ConnectionSlot) -> None:
        self._places[place] = None
        place.attended = asyncio.create_task(self._attend(sock, place))
        place.attended.add_done_callback(lambda _: self._places.pop(place))
        most = self._most_strangers
        strangers = [each for each in self._places if each.strange and not each.sent_away]
        oldest = superfluous(strangers, most, self._familiar)
        if oldest is not None:
            assert oldest.attended is not None
            oldest.sent_away = True
            oldest.attended.cancel()
            sentence = f"was the oldest of more than {most} who had not shown what they came for"
            self._refusals.note(oldest.peer, Reason.CROWD, sentence)

    async def _attend(self, sock: socket.socket, place: ConnectionSlot) -> None:
        """One connection, from its handshake to its end."""
        outside = _End()
        try:
            await received(sock, self._context, outside, HANDSHAKE_WITHIN_S, CLOSED_WITHIN_S)
        except OSError as error:  # SSLError is one, and so is what a timeout raises
            self._refusals.note(place.peer, Reason.HANDSHAKE, _why(error))
            _untie(error)
            return
        except asyncio.CancelledError as error:
            _untie(error)
            raise
        try:
            guest = AgentConnection(place.peer, _certificate(outside.transport), outside)
            place.strange = guest.certificate is None
            if guest.certificate is not None:
                self._familiar.add(place.host)
            async with asyncio.timeout(self._stays_s):
                await self._lead_on(guest, outside)
        except TimeoutError:
            pass
        except OSError as error:
            log.error("agent from %s: cannot be led on to gRPC: %s", place.peer, error)
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
        """Why there is no place for one more who has shown a certificate of this name."""
        names = [each.certificate.name for each in self._guests.values() if each.certificate is not None]
        if names.count(name) >= MOST_OF_A_NAME:
            return f"has {names.count(name)} connections open, as many as one may"
        if len(names) >= self._most:
            more = f"; with more descriptors (ulimit -n) up to {MOST}" if self._most < MOST else ""
            return f"{self._most} connections are open, as many as may be{more}"
        return None


class _End(asyncio.Protocol):
    """One side of a connection; what it hears the other says, and no faster than that can."""

    def __init__(self) -> None:
        self.over = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._other: _End | None = None
        self._ended = False
        self._early = bytearray()  # heard before there was somebody to tell

    def join(self, other: _End) -> None:
        for one, another in ((self, other), (other, self)):
            one._other = another
            another.transport.write(bytes(one._early))
            one._early.clear()
            one.transport.resume_reading()

    def end(self) -> None:
        """What was written is sent first."""
        if self._transport is not None and not self._ended:
            self._ended = True  # asyncio's TLS forgets, at a second close, what an abort would need
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
        transport.pause_reading()  # Python 3.11's plain ones do not listen to it so early

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
    """At two doors, half of the descriptors at the most: switches need theirs."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if descriptors < 0 else min(MOST, descriptors // (4 * DESCRIPTORS_EACH))


def _untie(error: BaseException) -> None:
    """asyncio holds what failed, with its buffers, in frames that hold the failure: such a knot waits for a search for
    garbage, and strangers tie them faster than those come."""
    one: BaseException | None = error
    while one is not None:
        one.__traceback__ = None
        one = one.__cause__ or one.__context__


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not one of ours ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"TLS handshake: {error.reason or type(error).__name__}"
    return f"TLS handshake: {str(error) or type(error).__name__}"


def listening(endpoint: Endpoint, key: str) -> socket.socket:
    """Raises AgencyError; `key` says where in gateway.yaml the address stands."""
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    try:
        return socket.create_server((endpoint.host, endpoint.port), family=family, backlog=WAITING)
    except OSError as error:
        raise AgencyError(
            f"cannot listen for agents at {endpoint} ({error.strerror}): set controller.agents.{key} to an address of "
            "this machine that nobody else uses"
        ) from error
