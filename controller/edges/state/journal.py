# SPDX-License-Identifier: Apache-2.0
"""A journal: the last entries of a kind, numbered, in a file of JSON lines."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controller.edges.state import files

log = logging.getLogger(__name__)

Entry = dict[str, Any]


class Journal:
    """Any thread may call it. The file holds up to twice `most` entries, then it is replaced."""

    def __init__(self, path: Path | None, most: int) -> None:
        self._path = path
        self._most = most
        self._lock = threading.Lock()
        self._entries: deque[Entry] = deque(_read(path) if path is not None else (), most)
        self._lines = 2 * most  # in the file: the first entry replaces it, without a half-written line

    def add(self, at: float, entry: Mapping[str, Any], sync: bool = False) -> None:
        """Append an entry. With `sync` it survives the loss of power."""
        with self._lock:
            number = self._entries[-1]["number"] + 1 if self._entries else 1
            self._entries.append({"number": number, "at": at, **entry})
            if self._path is None:
                return
            try:
                if self._lines >= 2 * self._most:
                    files.replace(self._path, "".join(map(_line, self._entries)).encode())
                    self._lines = len(self._entries)
                else:
                    self._append(self._path, _line(self._entries[-1]), sync)
            except OSError as error:
                log.error("%s cannot be written (%s): %s", self._path, error.strerror, files.remedy(error))

    @property
    def last(self) -> int:
        """Return the number of the newest entry, or 0."""
        with self._lock:
            return int(self._entries[-1]["number"]) if self._entries else 0

    def entries(self) -> list[Entry]:
        """Return the entries, the newest first."""
        with self._lock:
            return list(reversed(self._entries))

    def _append(self, path: Path, line: str, sync: bool) -> None:
        with path.open("a", encoding="ascii") as file:
            file.write(line)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        self._lines += 1


def _line(entry: Entry) -> str:
    return json.dumps(entry) + "\n"


def _read(path: Path) -> list[Entry]:
    """Return the entries of a file. A line that a power cut left half written is ignored."""
    try:
        lines = files.read(path).splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        log.warning("%s cannot be read (%s): it starts empty", path, error.strerror)
        return []
    found = []
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            entry = json.loads(line)
            if isinstance(entry, dict) and isinstance(entry.get("number"), int) and isinstance(entry.get("at"), float):
                found.append(entry)
    return found
