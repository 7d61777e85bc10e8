# SPDX-License-Identifier: Apache-2.0
"""One stream over MPTCP with a time stamp for each read: the program at both of its ends.

    stream.py listen|connect send|receive ADDRESS PORT STAMPS [BPS [CONGESTION_CONTROL]]

The listener prints `listening`. The sender runs until a line comes on stdin, or its end. It sends as fast as it can, or
at BPS like a camera; bytes that could not be sent in time are sent as soon as possible. The receiver prints `flowing`
when the first half megabyte has arrived. For each read it writes to STAMPS the time (time.monotonic(), which all
namespaces share) and the bytes that had arrived by then, as doubles. The last line of either end is JSON. Every block
differs, so that the checksum also reveals repeated or reordered bytes.
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


_listeners: list[socket.socket] = []  # stay open: to them further subflows come


def connected(end: str, address: str, port: int) -> socket.socket:
    line = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
    if end == "connect":
        line.connect((address, port))
        return line
    line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    line.bind((address, port))
    line.listen()
    print("listening", flush=True)
    peer, _ = line.accept()
    _listeners.append(line)
    return peer


def send(line: socket.socket, bps: int) -> dict[str, object]:
    enough = threading.Event()
    threading.Thread(target=_listen, args=(enough,), daemon=True).start()
    digest, number, began = hashlib.sha256(), 0, time.monotonic()
    size = PACED_BYTES if bps else BLOCK_BYTES
    block = random.Random(0).randbytes(size - 8)
    while not enough.is_set():
        part = number.to_bytes(8, "big") + block
        digest.update(part)
        line.sendall(part)
        number += 1
        if bps:
            enough.wait(began + number * size * 8 / bps - time.monotonic())
    line.shutdown(socket.SHUT_WR)
    line.recv(1)  # the other end closes when it has everything
    return {"bytes": number * size, "sha256": digest.hexdigest()}


def _listen(enough: threading.Event) -> None:
    sys.stdin.readline()
    enough.set()


def receive(line: socket.socket, stamps: Path) -> dict[str, object]:
    digest, buffer, reads = hashlib.sha256(), bytearray(READ_BYTES), array("d")
    size, told = 0, False
    while count := line.recv_into(buffer):
        size += count
        reads.extend((time.monotonic(), size))
        digest.update(memoryview(buffer)[:count])
        if size >= FLOWING_BYTES and not told:
            told = True
            print("flowing", flush=True)
    with stamps.open("wb") as file:
        reads.tofile(file)
    return {"bytes": size, "sha256": digest.hexdigest()}


def main(
    end: str, role: str, address: str, port: str, stamps: str, bps: str = "0", congestion_control: str = ""
) -> None:
    with connected(end, address, int(port)) as line:
        if congestion_control:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
        told = send(line, int(bps)) if role == "send" else receive(line, Path(stamps))
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
