"""TLS of a connection that came in, at the price of a stranger.

asyncio's own has a buffer of 256 KiB from before the first byte on: two doors full of strangers were a quarter of a
gigabyte. Here it is what an agent says at once; of more, as of a long report, it is filled more than once. What is
left, some 50 KiB while a handshake lasts, is OpenSSL's.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from asyncio.sslproto import SSLProtocol

BUFFER_BYTES = 4 << 10


class _Tls(SSLProtocol):
    max_size = BUFFER_BYTES


async def received(
    sock: socket.socket,
    context: ssl.SSLContext,
    protocol: asyncio.Protocol,
    handshake_within_s: float,
    closed_within_s: float,
) -> None:
    """As the loop's connect_accepted_socket: `protocol` has its connection when it returns."""
    loop = asyncio.get_running_loop()
    shaken: asyncio.Future[None] = loop.create_future()
    tls = _Tls(
        loop,
        protocol,
        context,
        shaken,
        server_side=True,
        ssl_handshake_timeout=handshake_within_s,  # type: ignore[arg-type]  # typeshed forgets fractions
        ssl_shutdown_timeout=closed_within_s,
    )
    plain, _ = await loop.connect_accepted_socket(lambda: tls, sock)
    try:
        await shaken
    except BaseException:
        plain.abort()
        raise
