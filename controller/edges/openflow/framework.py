# SPDX-License-Identifier: Apache-2.0
"""The choice between os-ken and Ryu, known to this file alone, and the thread that runs it.

os-ken runs on threads and Ryu on eventlet's greenlets, unpatched. The rest of the program uses plain threads.
`Framework.call` crosses into the framework's thread, and `post` out of it, which must not block.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import os
import socket
import stat
import struct
import threading
import warnings
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from controller.edges.openflow.errors import FrameworkError
from controller.model.settings import Endpoint, LocalSocket

log = logging.getLogger(__name__)

VARIABLE = "BICAST_FRAMEWORK"
FRAMEWORKS = ("os_ken", "ryu")


class SwitchError(Exception):
    """A peer broke the protocol. Only its connection ends."""


def _choose() -> str:
    wish = os.environ.get(VARIABLE)
    if wish is not None and wish not in FRAMEWORKS:
        raise FrameworkError(f"{VARIABLE} is {wish!r}; expected one of {', '.join(FRAMEWORKS)}")
    for name in FRAMEWORKS if wish is None else (wish,):
        if importlib.util.find_spec(name) is not None:
            return name
    raise FrameworkError(f"{wish or 'neither os_ken nor ryu'} is not installed; install requirements.txt")


NAME = _choose()


def _part(path: str) -> Any:
    return importlib.import_module(f"{NAME}.{path}")


if NAME == "ryu":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # eventlet is deprecated; Ryu needs it
        eventlet_wsgi: Any = importlib.import_module("eventlet.wsgi")
        green_socket: Any = importlib.import_module("eventlet.greenio").GreenSocket
    # ryu.app.wsgi wants this name, which eventlet has dropped.
    if not hasattr(eventlet_wsgi, "ALREADY_HANDLED"):
        eventlet_wsgi.ALREADY_HANDLED = object()
else:

    def green_socket(sock: socket.socket) -> Any:
        return sock


app_manager = _part("base.app_manager")  # before controller.controller, which looks for it
ofp_event = _part("controller.ofp_event")
hub = _part("lib.hub")
ofproto = _part("ofproto.ofproto_v1_3")
parser = _part("ofproto.ofproto_v1_3_parser")
Datapath = _part("controller.controller").Datapath
OFPHandler = _part("controller.ofp_handler").OFPHandler
ParseError = _part("exception").OSKenException if NAME == "os_ken" else _part("exception").RyuException
EventBase = _part("controller.event").EventBase
_handler = _part("controller.handler")
HANDSHAKE, CONFIG = _handler.HANDSHAKE_DISPATCHER, _handler.CONFIG_DISPATCHER
MAIN, DEAD = _handler.MAIN_DISPATCHER, _handler.DEAD_DISPATCHER
App = app_manager.OSKenApp if NAME == "os_ken" else app_manager.RyuApp


class EventMessage(EventBase):  # type: ignore[misc, valid-type]
    """A message for speaker.py: the framework's parsers drop a whole reply for one unknown flow."""

    def __init__(self, datapath: Any, kind: int, xid: int, data: bytes) -> None:
        super().__init__()
        self.datapath, self.kind, self.xid, self.data = datapath, kind, xid, data


class Handshake(OFPHandler):  # type: ignore[misc, valid-type]
    """The framework's handshake and echo handling, without its listener."""

    _EVENTS = [EventMessage]  # noqa: RUF012  (the framework's own form)

    def start(self) -> None:
        App.start(self)


class Fence:
    """Confine an error to one connection. The native hub takes any exception as an exit of its loop."""

    def __init__(self, blame: Callable[[str], None], what: str) -> None:
        self._blame, self._what = blame, what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        if isinstance(error, SwitchError):
            self._blame(str(error))
        else:
            log.error("%s failed; its connection is closed", self._what, exc_info=error)
            self._blame(f"{self._what} failed")
        return True


P = ParamSpec("P")
T = TypeVar("T")
Handler = Callable[[T, Any], None]


def handles(event_class: Any, state: str) -> Callable[[Handler[T]], Handler[T]]:
    """Register a handler of an event. An exception ends only the event's connection."""

    def decorate(handler: Handler[T]) -> Handler[T]:
        @functools.wraps(handler)
        def fenced(app: T, event: Any) -> None:
            datapath = event.datapath if hasattr(event, "datapath") else event.msg.datapath
            with Fence(datapath.refuse, handler.__name__):
                handler(app, event)

        marked: Handler[T] = _handler.set_ev_cls(event_class, state)(fenced)
        return marked

    return decorate


def options(group: str, **defaults: str) -> Any:
    """Return these options of the framework's configuration file, once it has read it."""
    configuration = _part("cfg")
    configuration.CONF.register_opts(
        [configuration.StrOpt(name, default=value) for name, value in defaults.items()], group
    )
    return configuration.CONF[group]


class Framework:
    """One app on the framework."""

    def __init__(
        self, listen: Endpoint | LocalSocket, app: Any, serve: Callable[[Any, Any], None], **arguments: Any
    ) -> None:
        """`app(**arguments)` receives the events. Each connection gets a call of `serve(socket, address)`."""
        self._listener = _listener(listen)
        self.address = listen if isinstance(listen, LocalSocket) else Endpoint(*self._listener.getsockname()[:2])
        self._app_class, self._arguments, self._serve = app, arguments, serve
        self._calls: deque[Callable[[], object]] = deque()
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._stopping = False
        self._running = threading.Event()  # the hub's own Event().wait(timeout) never times out
        # The framework's threads inherit the daemon flag, so they do not keep the process alive.
        self._thread = threading.Thread(target=self._run, name=f"{NAME} framework", daemon=True)
        self._thread.start()
        while not self._running.wait(1):
            if not self._thread.is_alive():
                raise FrameworkError(f"{NAME} did not start; the reason is printed above")

    def call(self, function: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> None:
        """Run a non-blocking function in the framework's thread, in order, from any thread."""
        self._calls.append(functools.partial(function, *arguments, **named))
        try:
            self._bell.send(b"!")
        except OSError:
            return  # a full buffer wakes the thread anyway; a closed one means that it has ended

    def close(self) -> None:
        self._stopping = True
        if isinstance(self.address, LocalSocket):
            Path(self.address.path).unlink(missing_ok=True)
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept(); close() does not

    def stop(self) -> None:
        """Stop the app. The caller ends all connections before."""
        self._bell.close()
        self._thread.join()

    def _run(self) -> None:
        logging.getLogger(app_manager.__name__).setLevel(logging.WARNING)  # hides its start messages
        manager = app_manager.AppManager()
        apps = [manager.instantiate(Handshake), manager.instantiate(self._app_class, **self._arguments)]
        for app in apps:
            app.start()
        hub.spawn(self._accept, green_socket(self._listener))
        ear = green_socket(self._ear)
        self._running.set()
        while ear.recv(4096):
            while self._calls:
                self._calls.popleft()()
        for app in apps:
            manager.uninstantiate(app.name)
        ear.close()

    def _accept(self, listener: Any) -> None:
        while True:
            try:
                connection, address = listener.accept()
            except OSError as error:
                if self._stopping:
                    listener.close()
                    return
                log.error("cannot accept an OpenFlow connection: %s", error)
                hub.sleep(1)  # probably out of descriptors: an immediate retry would fail too
                continue
            if isinstance(self.address, LocalSocket):
                address = LOCAL, peer_process(connection)
            hub.spawn(self._serve, connection, address)


LOCAL = "local"  # host of a peer at our Unix socket; its process replaces the port
CREDENTIALS = struct.Struct("3i")  # process, user and group (unix(7), SO_PEERCRED)


def peer_process(connection: Any) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    process: int = CREDENTIALS.unpack(credentials)[0]
    return process


def _local_listener(path: Path) -> socket.socket:
    """Listen on a Unix socket for root and this user only. Replace a dead process' one.

    The switch trusts any listener at this path, so no other user may write to the directory.
    """
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if path.parent.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise FrameworkError(
            f"cannot listen for switches on {path}: others may replace the socket; `chmod go-w {path.parent}`"
        )
    with socket.socket(socket.AF_UNIX) as probe:
        if probe.connect_ex(str(path)) == 0:
            raise FrameworkError(f"cannot listen for switches on {path}: another controller listens there")
    if path.is_socket():
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(0o600)  # a connection is refused until listen()
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener


def _listener(listen: Endpoint | LocalSocket) -> socket.socket:
    if isinstance(listen, LocalSocket):
        try:
            return _local_listener(Path(listen.path))
        except OSError as error:
            raise FrameworkError(f"cannot listen for switches on {listen}: {error.strerror}") from error
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        return socket.create_server((listen.host, listen.port), family=family, backlog=1024)
    except OSError as error:
        raise FrameworkError(
            f"cannot listen for switches on {listen}: {error.strerror}; another controller may be running there"
        ) from error
