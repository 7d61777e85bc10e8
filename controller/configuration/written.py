"""A file that people write, read whole or refused.

Who reads it is also who hears that it is time to stop: so nothing is opened that may never end. And an editor may be
halfway through: a YAML file cut between two lines is YAML too, so a file counts when nobody has touched it for a
moment. Only a file that was written apart and renamed is never seen half; docs/home-gateway.md says so to people.
"""

from __future__ import annotations

import os
import stat
import time
from typing import BinaryIO

from controller.configuration.document import ConfigError

LARGEST_BYTES = 512 << 10  # YAML takes up to 25 us a byte
UNTOUCHED_S = 0.25
PATIENCE_S = 2.0


def read(path: str) -> bytes:
    try:
        with open(path, "rb", opener=_at_once) as file:
            return _whole(path, file)
    except OSError as error:
        raise ConfigError(path, "", error.strerror, "a file that can be read") from None


def _at_once(path: str, flags: int) -> int:
    """A FIFO would have us wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _whole(path: str, file: BinaryIO) -> bytes:
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        raise ConfigError(path, "", "a pipe or a device", "a regular file")
    deadline = time.monotonic() + PATIENCE_S
    while True:
        touched = _touched(file)
        if time.time() - touched[1] / 1e9 < UNTOUCHED_S:  # or it is of the future, because the clock was set
            time.sleep(UNTOUCHED_S)
        file.seek(0)
        raw = file.read(LARGEST_BYTES + 1)
        if len(raw) > LARGEST_BYTES:
            raise ConfigError(path, "", f"{len(raw)} bytes or more", f"at most {LARGEST_BYTES} bytes")
        if _touched(file) == touched:
            return raw
        if time.monotonic() >= deadline:
            changing = f"a file that changes all the time, for {PATIENCE_S:g} s by now"
            raise ConfigError(path, "", changing, "one that is whole: write another, and rename it")


def _touched(file: BinaryIO) -> tuple[int, int]:
    now = os.fstat(file.fileno())
    return now.st_size, now.st_mtime_ns
