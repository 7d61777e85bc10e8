# SPDX-License-Identifier: Apache-2.0
"""Transfer over plain TCP with a fixed window; relay by splicing two connections, like paper 001.

    hose.py receive ADDRESS PORT WINDOW BYTES
    hose.py relay ADDRESS PORT WINDOW TO_ADDRESS TO_PORT
    hose.py send ADDRESS PORT BYTES
    hose.py ask ADDRESS PORT TIMES

The receiver prints when half and all bytes had arrived, the sender when it starts, at a line on stdin. `ask` prints the
durations of single-byte echoes; a receiver of 0 bytes echoes. Times are in ns, by the clock that all namespaces share.
"""

from __future__ import annotations

import socket
import sys
import threading
import time

BLOCK_BYTES = 1 << 16
SO_RCVBUFFORCE = 33  # from asm-generic/socket.h
CONGESTION_CONTROL = b"cubic"  # bbr gains nothing from a split where packets are lost


def listen(address: str, port: int, window_bytes: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, window_bytes)  # the kernel doubles it
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, window_bytes)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION_CONTROL)
    listener.bind((address, port))
    listener.listen(64)
    print("ready", flush=True)
    return listener


def connect(address: str, port: int) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION_CONTROL)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.connect((address, port))
    return connection


def receive(listener: socket.socket, expected: int) -> None:
    connection = listener.accept()[0]
    if expected == 0:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pour(connection, connection)
        return
    buffer = bytearray(BLOCK_BYTES)
    come = half_ns = 0
    while count := connection.recv_into(buffer):
        come += count
        if not half_ns and come >= expected / 2:
            half_ns, half_bytes = time.monotonic_ns(), come
    print(half_ns, half_bytes, time.monotonic_ns(), come, flush=True)


def relay(listener: socket.socket, address: str, port: int) -> None:
    while True:
        connection = listener.accept()[0]
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=splice, args=(connection, address, port), daemon=True).start()


def splice(connection: socket.socket, address: str, port: int) -> None:
    far = connect(address, port)
    threading.Thread(target=pour, args=(far, connection), daemon=True).start()
    pour(connection, far)


def pour(source: socket.socket, sink: socket.socket) -> None:
    buffer = bytearray(BLOCK_BYTES)
    while count := source.recv_into(buffer):
        sink.sendall(memoryview(buffer)[:count])
    sink.shutdown(socket.SHUT_WR)


def send(address: str, port: int, count: int) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    began_ns = time.monotonic_ns()
    connection = connect(address, port)
    connection.sendall(bytes(count))
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)  # the receiver closes last
    print(began_ns, flush=True)


def ask(address: str, port: int, times: int) -> None:
    connection = connect(address, port)
    for _ in range(times):
        asked_ns = time.monotonic_ns()
        connection.sendall(b"?")
        connection.recv(1)
        print(time.monotonic_ns() - asked_ns, flush=True)


def main(role: str, address: str, port: str, *rest: str) -> None:
    if role == "send":
        send(address, int(port), int(rest[0]))
    elif role == "ask":
        ask(address, int(port), int(rest[0]))
    else:
        listener = listen(address, int(port), int(rest[0]))
        if role == "receive":
            receive(listener, int(rest[1]))
        else:
            relay(listener, rest[1], int(rest[2]))


if __name__ == "__main__":
    main(*sys.argv[1:])
