"""A relay between switches and the controller that notes the kind and the moment of every OpenFlow message.

It stands outside both, so what it counts is what was sent. Its own delay, some tenths of a millisecond, is
counted against the controller.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

HEADER = struct.Struct("!BBHI")  # version, type, length, xid
FLOW_MOD, GROUP_MOD, METER_MOD = 14, 15, 29
FEATURES_REPLY, PORT_STATUS, BARRIER_REPLY = 6, 12, 21
MODIFICATIONS = (FLOW_MOD, GROUP_MOD, METER_MOD)


@dataclass(frozen=True, slots=True)
class Noted:
    at: float  # time.monotonic()
    kind: int


class Spy:
    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.connected_at: list[float] = []
        self.noted: list[Noted] = []
        self._open = threading.Event()
        self._open.set()
        self._lines: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"tcp:127.0.0.1:{self._listener.getsockname()[1]}"

    def count(self, *kinds: int, since: float = 0.0) -> int:
        return sum(each.kind in kinds and each.at >= since for each in self.noted)

    def modifications(self, since: float = 0.0) -> int:
        return self.count(*MODIFICATIONS, since=since)

    def last(self, kind: int, since: float = 0.0) -> float | None:
        return max((each.at for each in self.noted if each.kind == kind and each.at >= since), default=None)

    def cut(self) -> None:
        """End every connection; who comes again waits outside until `release`."""
        self._open.clear()
        for line in self._lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        self._lines.clear()

    def await_caller(self) -> None:
        """Until somebody waits outside."""
        select.select([self._listener], [], [])

    def release(self) -> None:
        self._open.set()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            select.select([self._listener], [], [])
            self._open.wait()
            try:
                switch, _ = self._listener.accept()
            except OSError:
                return
            began = time.monotonic()
            try:
                controller = socket.create_connection(self._target)
            except OSError:
                switch.close()
                continue
            self.connected_at.append(began)
            self._lines += (switch, controller)
            for one, other in ((switch, controller), (controller, switch)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._relay, args=(one, other), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket) -> None:
        rest = b""
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
                rest = self._note(rest + data, time.monotonic())
        except OSError:
            pass  # the other direction has ended it
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _note(self, data: bytes, at: float) -> bytes:
        offset = 0
        while len(data) - offset >= HEADER.size:
            _, kind, length, _ = HEADER.unpack_from(data, offset)
            if len(data) - offset < length:
                break
            self.noted.append(Noted(at, kind))
            offset += length
        return data[offset:]


@contextmanager
def spying(target: tuple[str, int] = ("127.0.0.1", 6653)) -> Iterator[Spy]:
    spy = Spy(target)
    try:
        yield spy
    finally:
        spy.close()
