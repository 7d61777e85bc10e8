# SPDX-License-Identifier: Apache-2.0
"""A proxy that records OpenFlow messages.

Its own delay, some tenths of a millisecond, counts against the controller.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from lab.processes.controller import OPENFLOW_ADDRESS

HEADER = struct.Struct("!BBHI")  # version, type, length, xid
FLOW_MOD, GROUP_MOD, METER_MOD = 14, 15, 29
FEATURES_REPLY, PORT_STATUS, BARRIER_REPLY = 6, 12, 21
MODIFICATIONS = (FLOW_MOD, GROUP_MOD, METER_MOD)
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class ObservedMessage:
    at: float  # time.monotonic()
    kind: int


class Spy:
    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.connected_at: list[float] = []
        self.messages: list[ObservedMessage] = []
        self._more = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"tcp:127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def alias_address(self) -> str:
        """Return the same listener under another name, so that Open vSwitch reconnects when it is set."""
        return f"tcp:[::ffff:127.0.0.1]:{self._listener.getsockname()[1]}"

    def count(self, *kinds: int, since: float = 0.0) -> int:
        return sum(each.kind in kinds and each.at >= since for each in self.messages)

    def modifications(self, since: float = 0.0) -> int:
        return self.count(*MODIFICATIONS, since=since)

    def last(self, kind: int, since: float = 0.0) -> float | None:
        return max((each.at for each in self.messages if each.kind == kind and each.at >= since), default=None)

    def wait(self, kind: int, since: float, patience_s: float = PATIENCE_S) -> float:
        """Return when the last message of this type after `since` passed."""
        with self._more:
            self._more.wait_for(lambda: self.last(kind, since) is not None, patience_s)
        found = self.last(kind, since)
        if found is None:
            raise TimeoutError(f"no OpenFlow message of type {kind} within {patience_s} s")
        return found

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
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
            for one, other in ((switch, controller), (controller, switch)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._relay, args=(one, other), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket) -> None:
        rest = b""
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
                rest = self._record(rest + data, time.monotonic())
        except OSError:
            pass  # the other direction closed it
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _record(self, data: bytes, at: float) -> bytes:
        offset, messages = 0, []
        while len(data) - offset >= HEADER.size:
            _, kind, length, _ = HEADER.unpack_from(data, offset)
            if len(data) - offset < length:
                break
            messages.append(ObservedMessage(at, kind))
            offset += length
        if messages:
            with self._more:
                self.messages += messages
                self._more.notify_all()
        return data[offset:]


@contextmanager
def spying() -> Iterator[Spy]:
    spy = Spy((OPENFLOW_ADDRESS.host, OPENFLOW_ADDRESS.port))
    try:
        yield spy
    finally:
        spy.close()
