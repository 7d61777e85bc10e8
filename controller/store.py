"""What must outlive a restart: the wishes of people and what policies decided.

One small file, replaced whole, so never half written. Version 1 knew no decisions, and 2 no sites: they are read.
"""

from __future__ import annotations

import json
from pathlib import Path

from controller import kept
from controller.config import MOST_SITES
from controller.configuration.document import ConfigError, Place
from controller.known import Wanted
from controller.model import Mode

VERSION = 3
SINCE = ("decided", "once")  # version 2, version 3
MODES = {str(each): each for each in Mode}


class StoreError(Exception):
    """The sentence names the file, what is wrong with it and what to do."""


class Store:
    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def load(self) -> Wanted:
        try:
            text = kept.read(self._path)
        except FileNotFoundError:
            return Wanted()
        except OSError as error:
            raise StoreError(
                f"{self._path} cannot be read ({error.strerror}): {kept.remedy(error)}, or move it away to forget"
            ) from None
        try:
            return _read(kept.document(self._path, text))
        except ConfigError as error:
            raise StoreError(f"{error}; this is what was wished and decided: move it away to forget") from None

    def save(self, wanted: Wanted) -> None:
        held = {
            "version": VERSION,
            "modes": dict(wanted.modes),
            "active": dict(wanted.active),
            "decided": dict(wanted.decided),
            "once": sorted(wanted.once),
        }
        try:
            kept.replace(self._path, json.dumps(held, indent=1, sort_keys=True).encode())
        except OSError as error:
            raise StoreError(
                f"{self._path} cannot be written ({error.strerror}), and a restart would forget the last of it: "
                f"{kept.remedy(error)}"
            ) from None


def _read(place: Place) -> Wanted:
    newer = SINCE[: kept.version(place, 1, VERSION) - 1]
    keys = place.mapping(required=("version", "modes", "active", *newer))
    return Wanted(
        {name: each.choice(MODES) for name, each in keys["modes"].named().items()},
        _uplinks(keys["active"]),
        keys.maybe("decided", _uplinks, {}),
        keys.maybe("once", _names, frozenset()),
    )


def _names(place: Place) -> frozenset[str]:
    return frozenset(each.text() for each in place.each(MOST_SITES, "sites"))


def _uplinks(place: Place) -> dict[str, str]:
    return {name: each.text() for name, each in place.named().items()}
