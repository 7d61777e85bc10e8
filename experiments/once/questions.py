# SPDX-License-Identifier: Apache-2.0
"""Requests of a kilobyte, each answered by a kilobyte, over one plain TCP connection: the program at either end.

questions.py answer PORT                        prints `ready`, and answers one connection until it ends
questions.py ask ADDRESS PORT RATE_PER_S S      for S seconds; prints how long each answer took, in seconds, as JSON

One is asked when it is due and the one before is answered; what was missed meanwhile is not made up for.
"""

from __future__ import annotations

import json
import socket
import sys
import time

BYTES = 1000


def answer(port: int) -> None:
    with socket.create_server(("", port)) as ear:
        print("ready", flush=True)
        line, _ = ear.accept()
    with line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while len(line.recv(BYTES, socket.MSG_WAITALL)) == BYTES:
            line.sendall(bytes(BYTES))


def ask(address: str, port: int, rate_per_s: float, seconds: float) -> None:
    took_s: list[float] = []
    with socket.create_connection((address, port)) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        due = time.monotonic()
        end = due + seconds
        while due < end:
            time.sleep(max(0.0, due - time.monotonic()))
            asked = time.monotonic()
            line.sendall(bytes(BYTES))
            if len(line.recv(BYTES, socket.MSG_WAITALL)) < BYTES:
                raise SystemExit(f"{address}:{port} has ended the connection after {len(took_s)} answers")
            answered = time.monotonic()
            took_s.append(answered - asked)
            due = max(due + 1 / rate_per_s, answered)
    print(json.dumps(took_s))


if __name__ == "__main__":
    if sys.argv[1] == "answer":
        answer(int(sys.argv[2]))
    else:
        ask(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
