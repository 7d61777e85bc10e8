"""What must outlive a restart: the wishes of people, what policies decided, and what copies have used of budgets.

One small file, replaced whole, so never half written. Version 1 knew no decisions, 2 no sites, and 3 no decisions of
copies: they are read.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from controller import kept
from controller.config import MOST_SITES
from controller.configuration.document import ConfigError, Place
from controller.known import Counted, Spent, Wanted
from controller.model import Mode

VERSION = 4
SINCE = ("decided", "once", "copies", "spent")  # version 2, version 3, the rest 4
SINCE_VERSION = {1: 0, 2: 1, 3: 2, 4: 4}  # how many of them
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
            "copies": dict(wanted.copies),
            "spent": {name: asdict(spent) for name, spent in wanted.spent.items()},
        }
        try:
            kept.replace(self._path, json.dumps(held, indent=1, sort_keys=True).encode())
        except OSError as error:
            raise StoreError(
                f"{self._path} cannot be written ({error.strerror}), and a restart would forget the last of it: "
                f"{kept.remedy(error)}"
            ) from None


def _read(place: Place) -> Wanted:
    newer = SINCE[: SINCE_VERSION[kept.version(place, *SINCE_VERSION)]]
    keys = place.mapping(required=("version", "modes", "active", *newer))
    return Wanted(
        {name: each.choice(MODES) for name, each in keys["modes"].named().items()},
        _uplinks(keys["active"]),
        keys.maybe("decided", _uplinks, {}),
        keys.maybe("once", _names, frozenset()),
        keys.maybe("copies", _copies, {}),
        keys.maybe("spent", _spent, {}),
    )


def _names(place: Place) -> frozenset[str]:
    return frozenset(each.text() for each in place.each(MOST_SITES, "sites"))


def _copies(place: Place) -> dict[str, bool]:
    return {name: _flag(each) for name, each in place.named().items()}


def _flag(place: Place) -> bool:
    if not isinstance(place.value, bool):
        raise place.wrong("true or false")
    return place.value


def _spent(place: Place) -> dict[str, Spent]:
    found = {}
    for name, each in place.named().items():
        keys = each.mapping(required=("day", "copied_bytes", "used_up", "counted"))
        used_up = None if keys["used_up"].value is None else kept.count(keys["used_up"])
        counted = None if keys["counted"].value is None else _counted(keys["counted"])
        found[name] = Spent(keys["day"].text(), kept.count(keys["copied_bytes"]), used_up, counted)
    return found


def _counted(place: Place) -> Counted:
    keys = place.mapping(required=("copied_bytes", "carried_bytes"))
    return Counted(kept.count(keys["copied_bytes"]), kept.count(keys["carried_bytes"]))


def _uplinks(place: Place) -> dict[str, str]:
    return {name: each.text() for name, each in place.named().items()}
