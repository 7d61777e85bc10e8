"""A JSON file of the controller's own: read with a finger on the place, and replaced whole. Who stops us in the midst
of it finds the old file or the new one, and where that fails nothing is left beside it.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from contextlib import suppress
from pathlib import Path

from controller.configuration.document import ConfigError, Place

REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room on the file system that it lies on"),
    errno.EROFS: "it lies on a file system that is read-only, or that systemd shows to the controller as such: mount "
    "it writable, or name its directory in ReadWritePaths= of the unit",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "let the controller's user read and write it and its directory"),
    errno.EIO: "the disk may be failing; the kernel's log (`dmesg`) tells",
}
OTHERWISE = "it must be a file, or nothing yet, in a directory that the controller's user may write"
LARGEST = 16 << 20  # bytes; ten thousand agents take 3 MB
TIMES_END = 253402300800.0  # the year 10000, which neither a certificate nor a calendar knows


def remedy(error: OSError) -> str:
    """What to do where a file cannot be read or written."""
    return REMEDIES.get(error.errno or 0, OTHERWISE)


def read(path: Path) -> bytes:
    """Raises OSError, also for what is no regular file (a FIFO would have us wait for a writer), or no file of ours."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device, and no regular file")
        if os.fstat(file.fileno()).st_size > LARGEST:
            raise OSError(errno.EFBIG, f"it has more than {LARGEST >> 20} MiB, which none that is written here has")
        return file.read(LARGEST)


def replace(path: Path, content: bytes) -> None:
    """It is the controller's user's alone. Raises OSError, and then it is what it was."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def document(path: Path, text: bytes) -> Place:
    """Raises ConfigError, as all that is asked of the Place does."""
    try:
        return Place(str(path), "", json.loads(text))
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(path), "", text.decode(errors="replace"), f"JSON ({error})") from None


def version(place: Place, *good: int) -> int:
    """Of the whole document."""
    found = place.named().get("version", Place(place.file, "version", None))
    value = found.value
    if not isinstance(value, int) or isinstance(value, bool) or value not in good:
        raise found.wrong(f"a version that is known here: {' or '.join(map(str, good))}")
    return value


def count(place: Place) -> int:
    value = place.value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise place.wrong("a whole number from 0 on")
    return value


def number(place: Place) -> float:
    value = place.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise place.wrong("a number")
    return float(value)


def moment(place: Place) -> float:
    """Unix seconds."""
    value = place.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < TIMES_END:
        raise place.wrong("a time in Unix seconds, before the year 10000")
    return float(value)
