# SPDX-License-Identifier: Apache-2.0
"""Exchange requests and answers of a kilobyte over one TCP connection.

questions.py answer PORT                        prints `ready`, and answers one connection until it ends
questions.py ask ADDRESS PORT RATE_PER_S S      for S seconds; prints the seconds of each answer as JSON

A request waits for its time and for the previous answer; missed requests are skipped.
"""

from __future__ import annotations

import json
import socket
import sys
import time

BYTES = 1000


def answer(port: int) -> None:
    with socket.create_server(("", port)) as listener:
        print("ready", flush=True)
        connection, _ = listener.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while len(connection.recv(BYTES, socket.MSG_WAITALL)) == BYTES:
            connection.sendall(bytes(BYTES))


def ask(address: str, port: int, rate_per_s: float, seconds: float) -> None:
    took_s: list[float] = []
    with socket.create_connection((address, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        due = time.monotonic()
        end = due + seconds
        while due < end:
            time.sleep(max(0.0, due - time.monotonic()))
            asked = time.monotonic()
            connection.sendall(bytes(BYTES))
            if len(connection.recv(BYTES, socket.MSG_WAITALL)) < BYTES:
                raise SystemExit(f"{address}:{port} closed the connection after {len(took_s)} answers")
            answered = time.monotonic()
            took_s.append(answered - asked)
            due = max(due + 1 / rate_per_s, answered)
    print(json.dumps(took_s))


if __name__ == "__main__":
    if sys.argv[1] == "answer":
        answer(int(sys.argv[2]))
    else:
        ask(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
