# SPDX-License-Identifier: Apache-2.0
"""Terminal and server, whoever carries between them: the program at both ends.

    traffic.py serve PORT                              answers, until stdin ends
    traffic.py bulk ADDRESS PORT down|up SECONDS       one transfer, by whom it is received
    traffic.py first ADDRESS PORT TIMES                connections one after the other, until the first byte came
    traffic.py crowd ADDRESS PORT CONNECTIONS          open at once; each asks, and asks again when a line has come
    traffic.py stall ADDRESS PORT CONNECTIONS          open at once; each asks for a transfer, and reads none of it
    traffic.py short ADDRESS PORT CONNECTIONS          that come, ask and go

Each that asks prints lines of JSON. A connection's first byte says what is wanted: an echo of each byte, or a transfer
of so many seconds. A transfer is of zeros, and ends with MARK and how many there were: nothing is missing unseen, and
who does not carry half-closes is measured, too.
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
AT_ONCE = 32  # that are being opened
PATIENCE_S = 30.0
STALLED_S = 120.0  # of transfers that nobody reads
FILLS_S = 0.1  # of each, until all that can hold bytes of it is full

Lines = list[socket.socket]


async def serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    answering: set[asyncio.Task[None]] = set()
    with socket.create_server(("", port), backlog=4096) as door:
        door.setblocking(False)
        print("ready", flush=True)
        over = loop.run_in_executor(None, sys.stdin.read)
        while not over.done():
            accepted = asyncio.ensure_future(loop.sock_accept(door))
            await asyncio.wait((accepted, over), return_when=asyncio.FIRST_COMPLETED)
            if accepted.done():
                task = asyncio.create_task(answer(accepted.result()[0]))
                answering.add(task)
                task.add_done_callback(answering.discard)
            else:
                accepted.cancel()


async def answer(line: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    line.setblocking(False)
    with line:
        try:
            wanted = await loop.sock_recv(line, 1)
            if wanted == DOWN:
                await pour(line, await told(line))
                await loop.sock_recv(line, 1)
            elif wanted == UP:
                await loop.sock_sendall(line, json.dumps(await drain(line)).encode())
            while wanted == ECHO:
                await loop.sock_sendall(line, wanted)
                wanted = await loop.sock_recv(line, 1)
        except ConnectionError:
            return


async def told(line: socket.socket) -> float:
    got = b""
    while len(got) < LENGTH.size:
        got += await asyncio.get_running_loop().sock_recv(line, LENGTH.size - len(got))
    return float(LENGTH.unpack(got)[0] / 1e6)


async def pour(line: socket.socket, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    until, sent = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        await loop.sock_sendall(line, BLOCK)
        sent += len(BLOCK)
    await loop.sock_sendall(line, END.pack(MARK, sent))


async def drain(line: socket.socket) -> dict[str, float]:
    """From the first byte to the end."""
    loop = asyncio.get_running_loop()
    buffer, got, tail, began = bytearray(len(BLOCK)), 0, bytes(END.size), 0.0
    while not tail.startswith(MARK):
        count = await loop.sock_recv_into(line, buffer)
        if count == 0:
            raise ConnectionError(f"the transfer ended after {got} bytes, without its last ones")
        began = began or time.monotonic()
        got += count
        tail = (tail + buffer[max(0, count - END.size) : count])[-END.size :]
    _, sent = END.unpack(tail)
    return {"bytes": sent, "seconds": time.monotonic() - began, "missing": sent + END.size - got}


async def connected(address: str, port: int) -> socket.socket:
    line = socket.socket()
    line.setblocking(False)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        await asyncio.wait_for(asyncio.get_running_loop().sock_connect(line, (address, port)), PATIENCE_S)
    except BaseException:
        line.close()
        raise
    return line


async def echoed(line: socket.socket) -> bool:
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(line, ECHO)
        return await asyncio.wait_for(loop.sock_recv(line, 1), PATIENCE_S) == ECHO
    except (OSError, TimeoutError):
        return False


async def bulk(address: str, port: int, way: str, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    with await connected(address, port) as line:
        if way == "down":
            await loop.sock_sendall(line, DOWN + LENGTH.pack(round(seconds * 1e6)))
            say(await drain(line))
        else:
            await loop.sock_sendall(line, UP)
            await pour(line, seconds)
            say(json.loads(await loop.sock_recv(line, 1024)))


async def first(address: str, port: int, times: int) -> None:
    for _ in range(times):
        began = time.monotonic()
        with await connected(address, port) as line:
            here = time.monotonic()
            if await echoed(line):
                say({"connected_ms": (here - began) * 1e3, "first_ms": (time.monotonic() - began) * 1e3})


async def opened(address: str, port: int, count: int, keep: bool) -> Lines:
    """Those that answered; all of them are counted by who asks."""
    numbers = iter(range(count))
    good: Lines = []

    async def some() -> None:
        for _ in numbers:
            try:
                line = await connected(address, port)
            except (OSError, TimeoutError):
                continue
            if await echoed(line):
                good.append(line)
            if not keep:
                line.close()

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    return good


async def crowd(address: str, port: int, count: int) -> None:
    lines = await opened(address, port, count, keep=True)
    say({"open": len(lines)})
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    say({"answered": sum(await asyncio.gather(*map(echoed, lines)))})
    for line in lines:
        line.close()


async def stall(address: str, port: int, count: int) -> None:
    loop = asyncio.get_running_loop()
    lines = [await connected(address, port) for _ in range(count)]
    for line in lines:
        await loop.sock_sendall(line, DOWN + LENGTH.pack(round(STALLED_S * 1e6)))
    await asyncio.sleep(1 + count * FILLS_S)
    say({"open": len(lines)})
    await loop.run_in_executor(None, sys.stdin.readline)
    say({"answered": sum(await asyncio.gather(*map(begun, lines)))})
    for line in lines:
        line.close()


async def begun(line: socket.socket) -> bool:
    """Whether what was asked for is there."""
    try:
        return bool(await asyncio.wait_for(asyncio.get_running_loop().sock_recv(line, 1), PATIENCE_S))
    except (OSError, TimeoutError):
        return False


async def short(address: str, port: int, count: int) -> None:
    say({"answered": len(await opened(address, port, count, keep=False))})


def say(what: dict[str, float]) -> None:
    print(json.dumps(what), flush=True)


def main(role: str, *words: str) -> None:
    if role == "serve":
        asyncio.run(serve(int(words[0])))
        return
    address, port, *rest = words
    with contextlib.suppress(OSError, json.JSONDecodeError):  # what broke is not told
        if role == "bulk":
            asyncio.run(bulk(address, int(port), rest[0], float(rest[1])))
        else:
            asyncio.run(
                {"first": first, "crowd": crowd, "stall": stall, "short": short}[role](address, int(port), int(rest[0]))
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
