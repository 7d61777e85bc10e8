# SPDX-License-Identifier: Apache-2.0
"""The users behind the other end of a loopback connection.

When the controller is away, any local user can listen at its port. A client asks here before it sends a token.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple

TABLES = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
LISTEN = "0A"  # include/net/tcp_states.h
WORD_BYTES = 4  # of an address, in the machine's byte order
ORDER = -1 if sys.byteorder == "little" else 1


class Row(NamedTuple):
    local: tuple[str, int]
    remote: tuple[str, int]
    state: str
    user: int


def users(connection: socket.socket) -> set[int]:
    """Return the owners of the remote end and of all listeners there.

    The kernel shows an end that no process has accepted as root's.
    """
    own, other = _endpoint(connection.getsockname()), _endpoint(connection.getpeername())
    wildcard = ("0.0.0.0", "::")
    return {
        row.user
        for row in _rows()
        if (row.local, row.remote) == (other, own)
        or (row.state == LISTEN and row.local[1] == other[1] and row.local[0] in (other[0], *wildcard))
    }


def owners(end: tuple[str, int], other: tuple[str, int]) -> set[int]:
    """Return the users of one end of a loopback connection."""
    ends = _endpoint(end), _endpoint(other)
    return {row.user for row in _rows() if (row.local, row.remote) == ends}


def _rows() -> Iterator[Row]:
    for table in TABLES:
        for line in table.read_text(encoding="ascii").splitlines()[1:] if table.exists() else ():
            _, local, remote, state, _, _, _, user, *_ = line.split()
            yield Row(_written(local), _written(remote), state, int(user))


def _written(text: str) -> tuple[str, int]:
    address, _, port = text.partition(":")
    words = bytes.fromhex(address)
    packed = b"".join(words[at : at + WORD_BYTES][::ORDER] for at in range(0, len(words), WORD_BYTES))
    return _endpoint((str(ip_address(packed)), int(port, 16)))


def _endpoint(name: tuple[str, int] | tuple[str, int, int, int]) -> tuple[str, int]:
    """Return address and port. An IPv4-mapped address is the IPv4 address."""
    address = ip_address(name[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address), name[1]
