"""Whose turn it is, where several workers run the suite on one machine: a test that measures what happens in time runs
alone, and the others beside one another.

    door    whoever wants to be alone closes it, so that nobody new comes in
    room    is shared by those who run beside others
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Turns:
    """Locks end with the process that has them, however it ends."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._door, self._room = ((directory / name).open("w") for name in ("door", "room"))

    @contextmanager
    def taken(self, alone: bool) -> Iterator[None]:
        kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        fcntl.flock(self._door, kind)
        fcntl.flock(self._room, kind)
        if not alone:
            fcntl.flock(self._door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._room, fcntl.LOCK_UN)
            fcntl.flock(self._door, fcntl.LOCK_UN)
