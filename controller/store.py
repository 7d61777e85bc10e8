"""What must outlive a restart: the wishes of people, what policies decided, what copies have used of budgets, and what
was measured.

One small file, replaced whole, so never half written. Version 1 knew no decisions, 2 no sites, 3 no decisions of
copies, and 4 no relays: they are read. Nothing may have been measured yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from controller import keeping, kept
from controller.config import MOST_SITES
from controller.configuration.document import ConfigError, Mapped, Place
from controller.enrolling import CONTROLLER, NAME
from controller.keeping import Pages
from controller.known import Counted, Spent, Wanted
from controller.model import Mode
from controller.relays import MOST_RANGES, MOST_RELAYS, PortRange, WishedRelay

VERSION = 5
SINCE = ("decided", "once", "copies", "spent", "relays")  # version 2, version 3, two of 4, version 5
SINCE_VERSION = {1: 0, 2: 1, 3: 2, 4: 4, 5: 5}  # how many of them
MODES = {str(each): each for each in Mode}

T = TypeVar("T")


class StoreError(Exception):
    """The sentence names the file, what is wrong with it and what to do."""


class Store:
    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def load(self) -> Wanted:
        return self._read(_wanted, Wanted())

    def measured(self) -> Pages:
        """Its times are Unix seconds."""
        return self._read(_measured, {})

    def _read(self, read: Callable[[Place], T], otherwise: T) -> T:
        try:
            text = kept.read(self._path)
        except FileNotFoundError:
            return otherwise
        except OSError as error:
            raise StoreError(
                f"{self._path} cannot be read ({error.strerror}): {kept.remedy(error)}, or move it away to forget"
            ) from None
        try:
            return read(kept.document(self._path, text))
        except ConfigError as error:
            raise StoreError(f"{error}; this is what was wished and decided: move it away to forget") from None

    def save(self, wanted: Wanted, measured: Pages | None = None) -> None:
        held = {
            "version": VERSION,
            "modes": dict(wanted.modes),
            "active": dict(wanted.active),
            "decided": dict(wanted.decided),
            "once": sorted(wanted.once),
            "copies": dict(wanted.copies),
            "spent": {name: asdict(spent) for name, spent in wanted.spent.items()},
            "relays": {name: {**asdict(each), "address": str(each.address)} for name, each in wanted.relays.items()},
            "roads": keeping.written(measured or {}),
        }
        try:
            kept.replace(self._path, json.dumps(held, indent=1, sort_keys=True).encode())
        except OSError as error:
            raise StoreError(
                f"{self._path} cannot be written ({error.strerror}), and a restart would forget the last of it: "
                f"{kept.remedy(error)}"
            ) from None


def _keys(place: Place) -> Mapped:
    newer = SINCE[: SINCE_VERSION[kept.version(place, *SINCE_VERSION)]]
    return place.mapping("roads", required=("version", "modes", "active", *newer))


def _measured(place: Place) -> Pages:
    return _keys(place).maybe("roads", keeping.read, {})


def _wanted(place: Place) -> Wanted:
    keys = _keys(place)
    return Wanted(
        {name: each.choice(MODES) for name, each in keys["modes"].named().items()},
        _uplinks(keys["active"]),
        keys.maybe("decided", _uplinks, {}),
        keys.maybe("once", _names, frozenset()),
        keys.maybe("copies", _copies, {}),
        keys.maybe("spent", _spent, {}),
        relays=keys.maybe("relays", _relays, {}),
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
        counted = {at: _counted(one) for at, one in keys["counted"].named().items()}
        found[name] = Spent(kept.day(keys["day"]), kept.count(keys["copied_bytes"]), used_up, counted)
    return found


def _counted(place: Place) -> Counted:
    keys = place.mapping(required=("passed_bytes", "rate_kbps"))
    return Counted(kept.count(keys["passed_bytes"]), kept.count(keys["rate_kbps"]))


def _relays(place: Place) -> dict[str, WishedRelay]:
    found = place.named()
    for name, each in found.items():
        if not NAME.fullmatch(name) or name == CONTROLLER:
            raise ConfigError(each.file, place.where, name, "a name that a relay can have")
    return {name: _relay(each) for name, each in found.items()}


def _relay(place: Place) -> WishedRelay:
    keys = place.mapping(required=("address", "port", "allowed", "congestion", "draining", "number"))
    return WishedRelay(
        keys["address"].address(),
        _port(keys["port"]),
        tuple(_range(each) for each in keys["allowed"].each(MOST_RANGES, "ranges of ports")),
        None if keys["congestion"].value is None else keys["congestion"].text(),
        _flag(keys["draining"]),
        _number(keys["number"]),
    )


def _number(place: Place) -> int:
    number = kept.count(place)
    if number >= MOST_RELAYS:
        raise place.wrong(f"a number below {MOST_RELAYS}")
    return number


def _range(place: Place) -> PortRange:
    keys = place.mapping(required=("first", "last"))
    return PortRange(_port(keys["first"]), _port(keys["last"]))


def _port(place: Place) -> int:
    port = kept.count(place)
    if not 1 <= port <= 65535:
        raise place.wrong("a port, from 1 to 65535")
    return port


def _uplinks(place: Place) -> dict[str, str]:
    return {name: each.text() for name, each in place.named().items()}
