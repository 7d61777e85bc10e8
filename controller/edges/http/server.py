# SPDX-License-Identifier: Apache-2.0
"""The API's socket, thread and connections, with a timeout for everything.

The socket is bound here or inherited from file descriptor 3 on (sd_listen_fds(3)). A parent that cannot know our
process id, because it starts us in a new PID namespace, leaves LISTEN_PID out.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
import ssl
import threading
import time
from asyncio.sslproto import SSLProtocol
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from controller.edges.http.access_control import CannotServe
from controller.edges.http.token import is_loopback
from controller.edges.trust.admission import Admission, Familiar, host_of
from controller.edges.trust.tls import HANDSHAKE_WITHIN_S, server_context
from controller.model.settings import Endpoint, Settings

# One connection: uvicorn's own class would hold half a request for ever
#
# A request must be whole soon after its first byte, and its answer must be read. When all slots are taken, the longest
# silent connection makes room. If all have asked, the one with the longest unread answer does.

log = logging.getLogger(__name__)

REQUEST_WITHIN_S = 5.0  # for a request; also for its first byte, from the connection's start or the previous answer
ANSWER_WITHIN_S = 30.0  # to read what was sent of an answer; longer than the core's timeout
MOST_CONNECTIONS = 256
BURST_S = 60.0  # of evictions, with one log line


def most_connections() -> int:
    """Return the connection limit: at most a quarter of the descriptors, since switches need some too."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if descriptors < 0 else max(8, min(MOST_CONNECTIONS, descriptors // 4))


class Crowd(ServerState):
    """uvicorn's set of connections, limited."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self._crowded_at = float("-inf")

    def make_room(self, newest: HttpConnection) -> None:
        """Close one connection above the limit: the longest idle, then the longest unread, else the newest."""
        present = [each for each in self.connections if isinstance(each, HttpConnection)]
        if len(present) <= self.most:
            return
        if newest.since - self._crowded_at >= BURST_S:
            log.warning("the API has reached its limit of %d connections: each new one closes another", self.most)
        self._crowded_at = newest.since
        waiting = [each for each in present if each.is_idle and each is not newest]
        leaving = [each for each in present if each.leaves_its_answer]
        min(waiting or leaving or [newest], key=lambda each: each.since).drop()


class HttpConnection(H11Protocol):
    server_state: Crowd

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.waits = True  # True: for a whole request; False: for its answer to be made and read
        self.since = 0.0
        self._begun = False
        self._deadline: asyncio.TimerHandle | None = None
        self._socket: asyncio.Transport  # below TLS, if there is TLS

    def arrived(self, transport: asyncio.Transport) -> None:
        """Take a slot, before the TLS handshake."""
        self.transport = self._socket = transport
        self.since = self.loop.time()
        self.server_state.connections.add(self)
        self.server_state.make_room(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if self not in self.server_state.connections:
            self.arrived(transport)
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        if not self.waits and self._taken():
            self._wait()
        if self.waits and not self._begun:
            self._begun = True
            self._within(REQUEST_WITHIN_S)
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        if self._taken():
            self._wait()
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Stop with the server. An unfinished request is dropped."""
        if self.waits:
            self.drop()
        else:
            super().shutdown()

    @property
    def is_idle(self) -> bool:
        return self.waits or self._taken()

    @property
    def leaves_its_answer(self) -> bool:
        return not self.waits and self._unread()

    def drop(self) -> None:
        self.server_state.connections.discard(self)  # abort() frees the descriptor in the next turn of the loop
        self.transport.abort()

    def _taken(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete and not self._unread()

    def _unread(self) -> bool:
        return self.transport.get_write_buffer_size() > 0 or self._socket.get_write_buffer_size() > 0

    def _look(self) -> None:
        if self.waits and self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self.waits = False
            self._within(ANSWER_WITHIN_S)

    def _expire(self) -> None:
        if self.waits or self._unread():
            self.drop()
        else:  # an answer that goes on, and is read as it comes: a stream of events
            self._within(ANSWER_WITHIN_S)

    def _wait(self) -> None:
        self.waits, self._begun = True, False
        self._within(REQUEST_WITHIN_S)

    def _within(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self.since = self.loop.time()
        self._deadline = self.loop.call_later(seconds, self._expire)


CLOSED_WITHIN_S = 2.0


class TlsConnection(SSLProtocol):
    """The TLS of an HTTP connection. Unauthenticated peers take little memory: asyncio's buffer has 256 KiB."""

    max_size = 4 << 10  # of a usual message; longer ones refill the buffer

    def __init__(self, http: HttpConnection, context: ssl.SSLContext, admission: Admission) -> None:
        super().__init__(
            http.loop,
            http,
            context,
            None,  # type: ignore[arg-type]  # nobody waits for the handshake
            server_side=True,
            ssl_handshake_timeout=HANDSHAKE_WITHIN_S,  # type: ignore[arg-type]  # typeshed forgets fractions
            ssl_shutdown_timeout=CLOSED_WITHIN_S,
        )
        self._http, self._admission = http, admission

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if self._admission.admits(host_of(transport.get_extra_info("peername")[0]), self._http.loop.time()):
            super().connection_made(transport)
            self._http.arrived(transport)
        else:
            transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._http.server_state.connections.discard(self._http)


HANDED_IN = 3  # SD_LISTEN_FDS_START
MOST_HANDED_IN = 8
LAST_ANSWERS_S = 1
PENDING = 128


class Serving:
    """The running API server. It accepts requests at once."""

    def __init__(self, app: ASGIApp, listeners: list[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        for listener in listeners:
            # Accepted sockets inherit this. asyncio sets it only for an explicit IPPROTO_TCP. Without it: 40 ms delay.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host, port = listeners[0].getsockname()[:2]
        self.endpoint = Endpoint(host, port)
        self.url = f"{'http' if tls is None else 'https'}://{self.endpoint}"
        most = most_connections()
        self._server = _Server(
            uvicorn.Config(
                app,
                http=HttpConnection if tls is None else _over_tls(tls),
                backlog=most // 4,  # asyncio accepts as many at once, before make_room can count the first
                loop="asyncio",
                ws="none",
                lifespan="off",
                proxy_headers=False,
                server_header=False,
                access_log=False,
                log_config=None,
                log_level="error",
                timeout_graceful_shutdown=LAST_ANSWERS_S,
            ),
            Crowd(most),
        )
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": listeners}, name="api", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Refuse new requests, finish current answers and free the address."""
        self._server.should_exit = True
        self._thread.join()


def _over_tls(context: ssl.SSLContext) -> Any:
    admission = Admission(Familiar(), time.monotonic())
    return lambda *args, **named: TlsConnection(HttpConnection(*args, **named), context, admission)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, crowd: Crowd) -> None:
        super().__init__(config)
        self.server_state = crowd

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(PENDING)  # asyncio's listen queue is only as long as its accept batch


def serve(app: ASGIApp, settings: Settings) -> Serving:
    """Raise CannotServe or TlsError."""
    return Serving(app, listeners(settings), context_of(settings))


def context_of(settings: Settings) -> ssl.SSLContext | None:
    return None if settings.api_tls is None else server_context(settings.api_tls)


def listeners(settings: Settings) -> list[socket.socket]:
    """Return inherited sockets, or one bound here. Raise CannotServe."""
    return _handed_in(settings) or [_bound(settings.api)]


def _bound(endpoint: Endpoint) -> socket.socket:
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    try:
        return socket.create_server((endpoint.host, endpoint.port), family=family, backlog=PENDING)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotServe(
                f"{endpoint} is taken, perhaps by another controller: stop that one, or set controller.api.listen"
            ) from error
        raise CannotServe(
            f"the API cannot listen at {endpoint} ({os.strerror(error.errno or 0)}): set controller.api.listen"
        ) from error


def _handed_in(settings: Settings) -> list[socket.socket]:
    count = os.environ.get("LISTEN_FDS")
    if count is None or os.environ.get("LISTEN_PID", str(os.getpid())) != str(os.getpid()):
        return []
    if not count.isdigit() or not 1 <= int(count) <= MOST_HANDED_IN:
        raise CannotServe(f"LISTEN_FDS={count}: 1 to {MOST_HANDED_IN} sockets were expected")
    return [_checked(number, settings) for number in range(HANDED_IN, HANDED_IN + int(count))]


def _checked(descriptor: int, settings: Settings) -> socket.socket:
    try:
        listener = socket.socket(fileno=descriptor)
        listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise CannotServe(f"LISTEN_FDS is set, but file descriptor {descriptor} is not a socket") from error
    if not listening or listener.family not in (socket.AF_INET, socket.AF_INET6):
        listener.detach()
        raise CannotServe(f"LISTEN_FDS is set: a listening TCP socket at file descriptor {descriptor} was expected")
    host = listener.getsockname()[0]
    if None in (settings.token_file, settings.api_tls) and not is_loopback(host):
        listener.detach()
        raise CannotServe(
            f"the inherited socket listens for other hosts at {host}: set controller.api.token_file and "
            "controller.api.tls"
        )
    listener.set_inheritable(False)
    return listener
