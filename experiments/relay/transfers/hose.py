# SPDX-License-Identifier: Apache-2.0
"""A transfer over plain TCP, with a window that is stated, and paper 001's relay: it splices two connections.

    hose.py receive ADDRESS PORT WINDOW BYTES
    hose.py relay ADDRESS PORT WINDOW TO_ADDRESS TO_PORT
    hose.py send ADDRESS PORT BYTES
    hose.py ask ADDRESS PORT TIMES

Who receives says `ready`, takes one connection and tells when half and when all of the bytes had come. Who relays
says `ready` and goes on until it is ended. Who sends begins with a line on stdin, and tells when it did. Who asks sends
a byte and waits for it to come back, so many times, and tells of each how long that took; for it a receiver of 0 bytes
sends back whatever comes. Moments and durations are in ns, by the clock that all namespaces share.
"""

from __future__ import annotations

import socket
import sys
import threading
import time

BLOCK_BYTES = 1 << 16
SO_RCVBUFFORCE = 33  # of asm-generic/socket.h
CONGESTION_CONTROL = b"cubic"  # bbr gains nothing by being split where packets are lost


def listening(address: str, port: int, window_bytes: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, window_bytes)  # which the kernel doubles
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, window_bytes)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION_CONTROL)
    listener.bind((address, port))
    listener.listen(64)
    print("ready", flush=True)
    return listener


def connected(address: str, port: int) -> socket.socket:
    line = socket.socket()
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION_CONTROL)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.connect((address, port))
    return line


def receive(listener: socket.socket, expected: int) -> None:
    line = listener.accept()[0]
    if expected == 0:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pour(line, line)
        return
    buffer = bytearray(BLOCK_BYTES)
    come = half_ns = 0
    while count := line.recv_into(buffer):
        come += count
        if not half_ns and come >= expected / 2:
            half_ns, half_bytes = time.monotonic_ns(), come
    print(half_ns, half_bytes, time.monotonic_ns(), come, flush=True)


def relay(listener: socket.socket, address: str, port: int) -> None:
    while True:
        line = listener.accept()[0]
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=splice, args=(line, address, port), daemon=True).start()


def splice(line: socket.socket, address: str, port: int) -> None:
    far = connected(address, port)
    threading.Thread(target=pour, args=(far, line), daemon=True).start()
    pour(line, far)


def pour(source: socket.socket, sink: socket.socket) -> None:
    buffer = bytearray(BLOCK_BYTES)
    while count := source.recv_into(buffer):
        sink.sendall(memoryview(buffer)[:count])
    sink.shutdown(socket.SHUT_WR)


def send(address: str, port: int, count: int) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    began_ns = time.monotonic_ns()
    line = connected(address, port)
    line.sendall(bytes(count))
    line.shutdown(socket.SHUT_WR)
    line.recv(1)  # that all has come
    print(began_ns, flush=True)


def ask(address: str, port: int, times: int) -> None:
    line = connected(address, port)
    for _ in range(times):
        asked_ns = time.monotonic_ns()
        line.sendall(b"?")
        line.recv(1)
        print(time.monotonic_ns() - asked_ns, flush=True)


def main(role: str, address: str, port: str, *rest: str) -> None:
    if role == "send":
        send(address, int(port), int(rest[0]))
    elif role == "ask":
        ask(address, int(port), int(rest[0]))
    else:
        listener = listening(address, int(port), int(rest[0]))
        if role == "receive":
            receive(listener, int(rest[1]))
        else:
            relay(listener, rest[1], int(rest[2]))


if __name__ == "__main__":
    main(*sys.argv[1:])
