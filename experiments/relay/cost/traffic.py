# SPDX-License-Identifier: Apache-2.0
"""Make traffic between terminal and server, over any route.

    traffic.py serve PORT                              answers, until stdin ends
    traffic.py bulk ADDRESS PORT down|up SECONDS       one transfer, timed by its receiver
    traffic.py first ADDRESS PORT TIMES                sequential connections, each up to the first byte
    traffic.py crowd ADDRESS PORT CONNECTIONS          open at once; each echoes, and again after a line on stdin
    traffic.py stall ADDRESS PORT CONNECTIONS          open at once; each requests a transfer and reads none of it
    traffic.py short ADDRESS PORT CONNECTIONS          each connects, echoes and closes

A connection's first byte requests an echo of each byte, or a transfer of so many seconds. A transfer ends with MARK and
the number of its zeros: a missing byte shows, also with proxies that do not relay half-closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import sys
import time

BLOCK = memoryview(bytes(1 << 20))
MARK = b"thatsall"
END = struct.Struct("!8sQ")
LENGTH = struct.Struct("!Q")
ECHO, DOWN, UP = b"e", b"d", b"u"
MAX_OPENING = 32  # connections
PATIENCE_S = 30.0
STALLED_S = 120.0  # of unread transfers
FILL_S = 0.1  # until the path's buffers are full

Connections = list[socket.socket]


async def serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    answering: set[asyncio.Task[None]] = set()
    with socket.create_server(("", port), backlog=4096) as listener:
        listener.setblocking(False)
        print("ready", flush=True)
        over = loop.run_in_executor(None, sys.stdin.read)
        while not over.done():
            accepted = asyncio.ensure_future(loop.sock_accept(listener))
            await asyncio.wait((accepted, over), return_when=asyncio.FIRST_COMPLETED)
            if accepted.done():
                task = asyncio.create_task(answer(accepted.result()[0]))
                answering.add(task)
                task.add_done_callback(answering.discard)
            else:
                accepted.cancel()


async def answer(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    connection.setblocking(False)
    with connection:
        try:
            wanted = await loop.sock_recv(connection, 1)
            if wanted == DOWN:
                await pour(connection, await read_duration(connection))
                await loop.sock_recv(connection, 1)
            elif wanted == UP:
                await loop.sock_sendall(connection, json.dumps(await drain(connection)).encode())
            while wanted == ECHO:
                await loop.sock_sendall(connection, wanted)
                wanted = await loop.sock_recv(connection, 1)
        except ConnectionError:
            return


async def read_duration(connection: socket.socket) -> float:
    got = b""
    while len(got) < LENGTH.size:
        got += await asyncio.get_running_loop().sock_recv(connection, LENGTH.size - len(got))
    return float(LENGTH.unpack(got)[0] / 1e6)


async def pour(connection: socket.socket, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    until, sent = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        await loop.sock_sendall(connection, BLOCK)
        sent += len(BLOCK)
    await loop.sock_sendall(connection, END.pack(MARK, sent))


async def drain(connection: socket.socket) -> dict[str, float]:
    """Read a transfer to its end; the time starts at the first byte."""
    loop = asyncio.get_running_loop()
    buffer, got, tail, await_start = bytearray(len(BLOCK)), 0, bytes(END.size), 0.0
    while not tail.startswith(MARK):
        count = await loop.sock_recv_into(connection, buffer)
        if count == 0:
            raise ConnectionError(f"the transfer ended after {got} bytes, without its trailer")
        await_start = await_start or time.monotonic()
        got += count
        tail = (tail + buffer[max(0, count - END.size) : count])[-END.size :]
    _, sent = END.unpack(tail)
    return {"bytes": sent, "seconds": time.monotonic() - await_start, "missing": sent + END.size - got}


async def connect(address: str, port: int) -> socket.socket:
    connection = socket.socket()
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        await asyncio.wait_for(asyncio.get_running_loop().sock_connect(connection, (address, port)), PATIENCE_S)
    except BaseException:
        connection.close()
        raise
    return connection


async def echo(connection: socket.socket) -> bool:
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(connection, ECHO)
        return await asyncio.wait_for(loop.sock_recv(connection, 1), PATIENCE_S) == ECHO
    except (OSError, TimeoutError):
        return False


async def bulk(address: str, port: int, way: str, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    with await connect(address, port) as connection:
        if way == "down":
            await loop.sock_sendall(connection, DOWN + LENGTH.pack(round(seconds * 1e6)))
            print_json(await drain(connection))
        else:
            await loop.sock_sendall(connection, UP)
            await pour(connection, seconds)
            print_json(json.loads(await loop.sock_recv(connection, 1024)))


async def first(address: str, port: int, times: int) -> None:
    for _ in range(times):
        await_start = time.monotonic()
        with await connect(address, port) as connection:
            here = time.monotonic()
            if await echo(connection):
                print_json(
                    {"connected_ms": (here - await_start) * 1e3, "first_ms": (time.monotonic() - await_start) * 1e3}
                )


async def open_connections(address: str, port: int, count: int, keep: bool) -> Connections:
    numbers = iter(range(count))
    good: Connections = []

    async def some() -> None:
        for _ in numbers:
            try:
                connection = await connect(address, port)
            except (OSError, TimeoutError):
                continue
            if await echo(connection):
                good.append(connection)
            if not keep:
                connection.close()

    await asyncio.gather(*(some() for _ in range(MAX_OPENING)))
    return good


async def crowd(address: str, port: int, count: int) -> None:
    connections = await open_connections(address, port, count, keep=True)
    print_json({"open": len(connections)})
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    print_json({"answered": sum(await asyncio.gather(*map(echo, connections)))})
    for connection in connections:
        connection.close()


async def stall(address: str, port: int, count: int) -> None:
    loop = asyncio.get_running_loop()
    connections = [await connect(address, port) for _ in range(count)]
    for connection in connections:
        await loop.sock_sendall(connection, DOWN + LENGTH.pack(round(STALLED_S * 1e6)))
    await asyncio.sleep(1 + count * FILL_S)
    print_json({"open": len(connections)})
    await loop.run_in_executor(None, sys.stdin.readline)
    print_json({"answered": sum(await asyncio.gather(*map(has_begun, connections)))})
    for connection in connections:
        connection.close()


async def has_begun(connection: socket.socket) -> bool:
    try:
        return bool(await asyncio.wait_for(asyncio.get_running_loop().sock_recv(connection, 1), PATIENCE_S))
    except (OSError, TimeoutError):
        return False


async def short(address: str, port: int, count: int) -> None:
    print_json({"answered": len(await open_connections(address, port, count, keep=False))})


def print_json(what: dict[str, float]) -> None:
    print(json.dumps(what), flush=True)


def main(role: str, *words: str) -> None:
    if role == "serve":
        asyncio.run(serve(int(words[0])))
        return
    address, port, *rest = words
    with contextlib.suppress(OSError, json.JSONDecodeError):  # a broken transfer prints nothing
        if role == "bulk":
            asyncio.run(bulk(address, int(port), rest[0], float(rest[1])))
        else:
            asyncio.run(
                {"first": first, "crowd": crowd, "stall": stall, "short": short}[role](address, int(port), int(rest[0]))
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
