# SPDX-License-Identifier: Apache-2.0
"""Send or receive one MPTCP stream, with a time stamp for each read.

    stream.py listen|connect send|receive ADDRESS PORT STAMPS [BPS [CONGESTION_CONTROL]]

The sender stops at a line on stdin or its end. Without BPS it sends as fast as possible; late bytes follow at once. The
receiver prints `flowing` after half a megabyte. For each read it writes two doubles to STAMPS: time.monotonic(), which
all namespaces share, and the bytes so far. Every block differs: the checksum reveals repeated or reordered bytes.
"""

from __future__ import annotations

import hashlib
import json
import random
import socket
import sys
import threading
import time
from array import array
from pathlib import Path

FLOWING_BYTES = 500_000
BLOCK_BYTES = 1 << 16
PACED_BYTES = 5000
READ_BYTES = 1 << 18


_listeners: list[socket.socket] = []  # open for further subflows


def connected(end: str, address: str, port: int) -> socket.socket:
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
    if end == "connect":
        connection.connect((address, port))
        return connection
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    connection.bind((address, port))
    connection.listen()
    print("listening", flush=True)
    peer, _ = connection.accept()
    _listeners.append(connection)
    return peer


def send(connection: socket.socket, bps: int) -> dict[str, object]:
    stop = threading.Event()
    threading.Thread(target=_await_stop, args=(stop,), daemon=True).start()
    digest, number, began = hashlib.sha256(), 0, time.monotonic()
    size = PACED_BYTES if bps else BLOCK_BYTES
    block = random.Random(0).randbytes(size - 8)
    while not stop.is_set():
        part = number.to_bytes(8, "big") + block
        digest.update(part)
        connection.sendall(part)
        number += 1
        if bps:
            stop.wait(began + number * size * 8 / bps - time.monotonic())
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)  # the receiver closes last
    return {"bytes": number * size, "sha256": digest.hexdigest()}


def _await_stop(stop: threading.Event) -> None:
    sys.stdin.readline()
    stop.set()


def receive(connection: socket.socket, stamps: Path) -> dict[str, object]:
    digest, buffer, reads = hashlib.sha256(), bytearray(READ_BYTES), array("d")
    size, announced = 0, False
    while count := connection.recv_into(buffer):
        size += count
        reads.extend((time.monotonic(), size))
        digest.update(memoryview(buffer)[:count])
        if size >= FLOWING_BYTES and not announced:
            announced = True
            print("flowing", flush=True)
    with stamps.open("wb") as file:
        reads.tofile(file)
    return {"bytes": size, "sha256": digest.hexdigest()}


def main(
    end: str, role: str, address: str, port: str, stamps: str, bps: str = "0", congestion_control: str = ""
) -> None:
    with connected(end, address, int(port)) as connection:
        if congestion_control:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
        result = send(connection, int(bps)) if role == "send" else receive(connection, Path(stamps))
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
