"""What must outlive a restart: the wishes of people and what policies decided.

One small file, replaced whole, so never half written. Version 1 knew no decisions, and is read.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from controller.known import Wanted
from controller.model import Mode

VERSION = 2


class StoreError(Exception):
    """The sentence names the file, what is wrong with it and what to do."""


class Store:
    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def load(self) -> Wanted:
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return Wanted()
        except (OSError, UnicodeError) as error:
            raise StoreError(f"{self._path} cannot be read ({error}): mend it, or move it away to forget") from None
        try:
            kept = json.loads(text)
            if kept["version"] not in (1, VERSION):
                raise ValueError(f"its version is {kept['version']!r}")
            modes = {str(name): Mode(mode) for name, mode in kept["modes"].items()}
            active = {str(name): str(uplink) for name, uplink in kept["active"].items()}
            decisions = kept["decided"] if kept["version"] == VERSION else {}
            decided = {str(name): str(uplink) for name, uplink in decisions.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise StoreError(f"{self._path} does not hold what was kept ({reason}): move it away to forget") from None
        return Wanted(modes, active, decided)

    def save(self, wanted: Wanted) -> None:
        kept = {
            "version": VERSION,
            "modes": dict(wanted.modes),
            "active": dict(wanted.active),
            "decided": dict(wanted.decided),
        }
        beside = self._path.with_name(self._path.name + ".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("w", encoding="utf-8") as file:
                json.dump(kept, file, indent=1, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError as error:
            raise StoreError(
                f"{self._path} cannot be written ({error}): a restart would forget the last of it"
            ) from None
