# SPDX-License-Identifier: Apache-2.0
"""Upload as in paper 003: write blocks, and time until the server has all bytes.

    upload.py receive ADDRESS PORT COUNT BYTES
    upload.py send ADDRESS PORT BYTES BLOCK LOW_WATER TRACE

The receiver answers each of COUNT connections with one byte after BYTES. The sender starts at a line on stdin to write
BLOCK bytes each time. LOW_WATER is its TCP_NOTSENT_LOWAT, 0 for the kernel's default. To TRACE it writes three doubles
every 10 ms: time.monotonic(), which all namespaces share, the congestion window in segments, and the unsent bytes.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from array import array
from pathlib import Path

EVERY_S = 0.01
READ_BYTES = 1 << 18
CONGESTION_CONTROL = b"cubic"  # like the paper's terminals
INFO_BYTES = 148  # of struct tcp_info, as needed
WINDOW, RETRANS, UNSENT = 80, 100, 144  # its offsets (linux/tcp.h)


def receive(address: str, port: str, count: str, size: str) -> None:
    with socket.create_server((address, int(port))) as listener:
        print("listening", flush=True)
        takers = [
            threading.Thread(target=_receive_all, args=(listener.accept()[0], int(size))) for _ in range(int(count))
        ]
        for taker in takers:
            taker.start()
        for taker in takers:
            taker.join()


def _receive_all(connection: socket.socket, size: int) -> None:
    buffer = bytearray(READ_BYTES)
    with connection:
        while size > 0:
            count = connection.recv_into(buffer)
            if not count:
                return
            size -= count
        connection.sendall(b"!")


def send(address: str, port: str, size: str, block: str, low_water: str, trace: str) -> None:
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION_CONTROL)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, int(low_water))
    connection.connect((address, int(port)))
    print("ready", flush=True)
    sys.stdin.readline()
    samples, over = array("d"), threading.Event()
    watcher = threading.Thread(target=_watch, args=(connection, samples, over))
    watcher.start()
    began, before = time.monotonic(), time.process_time()
    _write(connection, int(size), int(block))
    connection.recv(1)
    ended, after = time.monotonic(), time.process_time()
    over.set()
    watcher.join()
    (retransmits,) = struct.unpack_from("I", _info(connection), RETRANS)
    with Path(trace).open("wb") as file:
        samples.tofile(file)
    print(json.dumps({"began": began, "ended": ended, "again": retransmits, "cpu_s": after - before}), flush=True)


def _write(connection: socket.socket, size: int, block: int) -> None:
    part = bytes(block)
    for _ in range(size // block):
        connection.sendall(part)
    if size % block:
        connection.sendall(part[: size % block])


def _watch(connection: socket.socket, samples: array[float], over: threading.Event) -> None:
    while not over.wait(EVERY_S):
        info = _info(connection)
        samples.extend(
            (time.monotonic(), *struct.unpack_from("I", info, WINDOW), *struct.unpack_from("I", info, UNSENT))
        )


def _info(connection: socket.socket) -> bytes:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)


def main(role: str, *words: str) -> None:
    if role == "receive":
        receive(*words)
    else:
        send(*words)


if __name__ == "__main__":
    main(*sys.argv[1:])
