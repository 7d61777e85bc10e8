# SPDX-License-Identifier: Apache-2.0
"""The API's token: from the file that gateway.yaml names, or made at each start for this machine alone.

A made token is in /run/bicast-controller. It is made after the port was bound and removed at the end: a process that
takes the port while no controller runs never sees a token that is valid later.
"""

from __future__ import annotations

import contextlib
import grp
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from math import log2
from pathlib import Path

from controller.edges.state.files import readable

DIRECTORY = Path("/run/bicast-controller")  # RuntimeDirectory= of deploy/bicast.service
GROUP = "bicast"  # its members and root may use the API
LEAST_BITS = 128
LEAST_DISTINCT = 8  # distinct characters; one random token in ten thousand has fewer
LARGEST_BYTES = 4096


class BadToken(Exception):
    """The token file is unusable. The sentence names fault and remedy."""


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def path_of(port: int) -> Path:
    return DIRECTORY / f"api-{port}.token"


@contextmanager
def of_api(token_file: str | None, port: int) -> Iterator[str]:
    """Read the token, or make one and keep it while the block runs."""
    if token_file is not None:
        yield written(token_file)
        return
    token = made()
    with kept(port, token):
        yield token


def made() -> str:
    return secrets.token_hex(32)


def written(file: str) -> str:
    """Return the token in a file. Raise BadToken unless it is secret and strong."""
    path = readable(file)
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as opened:
            mode = os.fstat(opened.fileno()).st_mode
            token = opened.read(LARGEST_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise BadToken(f"the token of the API cannot be read from {file}: {why}") from error
    if not token or not token.isprintable() or " " in token:
        raise BadToken(f"{file} must hold the API's token: one word, such as `openssl rand -hex 32` prints")
    if not stat.S_ISREG(mode) or mode & stat.S_IRWXO:
        raise BadToken(f"{file} holds the API's token, and every user of this machine can read it: `chmod o= {file}`")
    if _bits(token) < LEAST_BITS or len(set(token)) < LEAST_DISTINCT:
        raise BadToken(
            f"the token in {file} can be guessed: expected {LEAST_BITS} random bits or more, "
            "such as `openssl rand -hex 32` prints"
        )
    return token


def _bits(token: str) -> float:
    if all(each in "0123456789" for each in token):
        alphabet = 10
    elif all(each in "0123456789abcdefABCDEF" for each in token):
        alphabet = 16
    else:
        alphabet = 64
    return len(token) * log2(alphabet)


@contextmanager
def kept(port: int, token: str) -> Iterator[Path]:
    """Keep a token while the block runs. Root and the group `bicast` may read it."""
    path = path_of(port)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        DIRECTORY.mkdir(mode=0o755, parents=True, exist_ok=True)
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            if _give_to_group(file.fileno()):
                os.fchmod(file.fileno(), 0o640)
            file.write(f"{token}\n")
        beside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise BadToken(
            f"the API's token cannot be written to {path} ({error.strerror}): run as root, or write "
            "controller.api.token_file into gateway.yaml"
        ) from error
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            if path.read_text(encoding="ascii").strip() == token:
                path.unlink()


def found(port: int) -> str | None:
    """Return the token that a controller of this machine keeps for clients, or None where there is none to read."""
    try:
        return path_of(port).read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _give_to_group(descriptor: int) -> bool:
    """Return whether the group exists and has the file."""
    try:
        os.fchown(descriptor, -1, grp.getgrnam(GROUP).gr_gid)
    except (KeyError, PermissionError):
        return False
    return True
