# SPDX-License-Identifier: Apache-2.0
"""Exchange requests and answers of a kilobyte over one connection, with the time of each.

requests.py answer PORT                     prints `ready`; answers until it is killed
requests.py ask ADDRESS PORT RATE_PER_S     prints `asking`; after a line on stdin [[asked_at, took_s], ...] as JSON

A request without an answer counts as answered at the end. Times are time.monotonic()'s.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from contextlib import suppress

BYTES = 1000
CONNECT_WITHIN_S = 15


def answer(port: str) -> None:
    with socket.create_server(("", int(port))) as listener:  # open, because MPTCP adds subflows
        print("ready", flush=True)
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while len(connection.recv(BYTES, socket.MSG_WAITALL)) == BYTES:
            connection.sendall(bytes(BYTES))


def _ask(connection: socket.socket, rate_per_s: float, asked: list[float], answered: list[float]) -> None:
    due = time.monotonic()
    with suppress(OSError):  # a broken connection answers nothing more
        while True:
            time.sleep(max(0.0, due - time.monotonic()))
            asked.append(time.monotonic())
            connection.sendall(bytes(BYTES))
            if len(connection.recv(BYTES, socket.MSG_WAITALL)) < BYTES:
                return
            answered.append(time.monotonic())
            due = max(due + 1 / rate_per_s, answered[-1])


def ask(address: str, port: str, rate_per_s: str) -> None:
    asked: list[float] = []
    answered: list[float] = []
    connection = socket.create_connection((address, int(port)), CONNECT_WITHIN_S)
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=_ask, args=(connection, float(rate_per_s), asked, answered), daemon=True).start()
    print("asking", flush=True)
    sys.stdin.readline()
    ends = [*answered, time.monotonic()]
    print(json.dumps([[one, end - one] for one, end in zip(asked, ends, strict=False)]))


if __name__ == "__main__":
    if sys.argv[1] == "answer":
        answer(sys.argv[2])
    else:
        ask(*sys.argv[2:])
