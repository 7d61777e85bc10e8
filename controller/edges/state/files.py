# SPDX-License-Identifier: Apache-2.0
"""The controller's own files, and systemd's credentials."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path

from controller.edges.config.document import Node
from controller.model.config import ConfigError

log = logging.getLogger(__name__)


def readable(file: str) -> Path:
    """Return systemd's credential of the file's name, or else the file itself."""
    copies = os.environ.get("CREDENTIALS_DIRECTORY")
    if copies is None:
        return Path(file)
    copy = Path(copies, Path(file).name)
    return copy if os.access(copy, os.R_OK) else Path(file)


REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free space on its file system"),
    errno.EROFS: "its file system is read-only, or systemd makes it read-only for the controller: mount "
    "it writable, or name its directory in ReadWritePaths= of the unit",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "let the controller's user read and write it and its directory"),
    errno.EIO: "the disk may be failing; see the kernel's log (`dmesg`)",
}
OTHERWISE = "it must be a file, or not exist yet, in a directory that the controller's user may write"
LARGEST = 16 << 20  # bytes; ten thousand agents take 3 MB
MOST_COUNTED = (1 << 63) - 1  # bytes; the sum of two still fits into 64 bits
MOST_NUMBER = 1e18  # bit/s, more than any line has
TIMES_END = 253402300800.0  # the year 10000, beyond certificates and Python's calendar


class InUse(Exception):
    """Another process holds the lock. The sentence names file, process and remedy."""


def remedy(error: OSError) -> str:
    return REMEDIES.get(error.errno or 0, OTHERWISE)


def read(path: Path) -> bytes:
    """Read a regular file up to LARGEST, else raise OSError. A FIFO would wait for a writer."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device, not a regular file")
        if os.fstat(file.fileno()).st_size > LARGEST:
            raise OSError(errno.EFBIG, f"it has more than {LARGEST >> 20} MiB, more than this controller ever writes")
        return file.read(LARGEST)


def replace(path: Path, content: bytes) -> None:
    """Write a file for the controller's user only. Return when it survives a power cut.

    After OSError the old file remains. If only the last sync failed, it may be either.
    """
    _make_directory(path.parent)
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)  # noqa: PTH105 (tests record what this module asks of os)
        _sync_directory(path.parent)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def _make_directory(path: Path) -> None:
    if not path.is_dir():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    """Sync the directory, so that its names survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, what: str, instead: str) -> Iterator[None]:
    """Hold a lock file while the block runs. Raise InUse if another process may write `what`.

    A lock file that cannot be made, as on a read-only disk, is only logged: `what` cannot be written either. On a full
    disk the lock is held, but the file does not name the process.
    """
    try:
        _make_directory(path.parent)
        # Unbuffered: closing it must not try again to write what a full disk has refused.
        file = open(path, "rb+", buffering=0, opener=_open_lock)  # noqa: SIM115 (it is closed below)
    except OSError as error:
        log.warning(
            "%s cannot be created (%s): a second controller that uses %s would not be noticed",
            path,
            error.strerror,
            what,
        )
        file = None
    if file is None:
        yield
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = file.read(32).decode(errors="replace").strip() or "of unknown number"
            raise InUse(
                f"{what} is in use by another controller, process {holder}: stop that one, or {instead}"
            ) from None
        try:
            file.truncate(0)
            file.write(f"{os.getpid()}\n".encode())
        except OSError as error:
            log.warning(
                "%s cannot be written (%s), so it does not name the process that uses %s: %s",
                path,
                error.strerror,
                what,
                remedy(error),
            )
        yield


def _open_lock(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def document(path: Path, text: bytes) -> Node:
    """Parse JSON. Raise ConfigError, as all methods of a Node do."""
    try:
        return Node(str(path), "", json.loads(text))
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(path), "", text.decode(errors="replace"), f"JSON ({error})") from None


def version(place: Node, *good: int) -> int:
    """Raise ConfigError unless the version is one of `good`."""
    found = place.named().get("version", Node(place.file, "version", None))
    value = found.value
    if not isinstance(value, int) or isinstance(value, bool) or value not in good:
        raise found.wrong(f"a known version: {' or '.join(map(str, good))}")
    return value


def count(place: Node) -> int:
    value = place.value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_COUNTED:
        raise place.wrong("a whole number from 0 to 2^63 - 1")
    return value


def number(place: Node) -> float:
    value = place.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not -MOST_NUMBER <= value <= MOST_NUMBER:
        raise place.wrong(f"a number between {-MOST_NUMBER:g} and {MOST_NUMBER:g}")
    return float(value)


def period(place: Node) -> str:
    text = place.text()
    try:
        date.fromisoformat(text if len(text) > len("2026-11") else f"{text}-01")
    except ValueError:
        raise place.wrong("a day such as 2026-11-22, or a month such as 2026-11") from None
    return text


def moment(place: Node) -> float:
    value = place.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < TIMES_END:
        raise place.wrong("a time in Unix seconds, before the year 10000")
    return float(value)
