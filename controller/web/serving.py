"""Where the API stands: a socket, a thread of its own, and an end. The application knows none of it.

It is either bound here or handed in from file descriptor 3 on, by systemd's convention (sd_listen_fds(3)). A parent
that cannot know our process id, because it starts us in a new PID namespace, leaves LISTEN_PID out.
"""

from __future__ import annotations

import errno
import os
import socket
import threading

import uvicorn
from starlette.types import ASGIApp

from controller.model import Endpoint, Settings
from controller.web.connection import Connection, Crowd, most_connections
from controller.web.gate import CannotServe
from controller.web.token import is_loopback

HANDED_IN = 3  # SD_LISTEN_FDS_START
MOST_HANDED_IN = 8
LAST_ANSWERS_S = 1
PENDING = 128


class Serving:
    """The API while it is offered; it answers from the moment this exists."""

    def __init__(self, app: ASGIApp, listeners: list[socket.socket]) -> None:
        for listener in listeners:
            # Accepted sockets inherit it; asyncio sets it only where the protocol was named. Else: 40 ms.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host, port = listeners[0].getsockname()[:2]
        self.endpoint = Endpoint(host, port)
        most = most_connections()
        self._server = _Server(
            uvicorn.Config(
                app,
                http=Connection,
                backlog=most // 4,  # accepted at once, before the first of them can be counted
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
        """Takes no more questions, ends the answers that are under way, gives the address back."""
        self._server.should_exit = True
        self._thread.join()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, crowd: Crowd) -> None:
        super().__init__(config)
        self.server_state = crowd

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(PENDING)  # asyncio has only as many wait as it accepts at once


def serve(app: ASGIApp, settings: Settings) -> Serving:
    return Serving(app, listeners(settings))


def listeners(settings: Settings) -> list[socket.socket]:
    """Return the sockets that were handed in, or one that is bound here. Raise CannotServe."""
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
        raise CannotServe(f"LISTEN_FDS is set, but file descriptor {descriptor} is no socket") from error
    if not listening or listener.family not in (socket.AF_INET, socket.AF_INET6):
        listener.detach()
        raise CannotServe(f"LISTEN_FDS is set: a listening TCP socket at file descriptor {descriptor} was expected")
    host = listener.getsockname()[0]
    if settings.token_file is None and not is_loopback(host):
        listener.detach()
        raise CannotServe(f"the socket handed in listens to strangers at {host}: set controller.api.token_file")
    listener.set_inheritable(False)
    return listener
