# SPDX-License-Identifier: Apache-2.0
"""The state file: overrides, decisions, budgets and estimates that survive a restart.

It is replaced whole, so never half written. Older versions are read too: 1 has no decisions, 2 no sites, 3 no decisions
about copies, 4 no relays. Measurements may be missing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from controller.edges.config.document import Mapped, Node
from controller.edges.config.load import MOST_SITES, MOST_TERMINALS, MOST_UPLINKS
from controller.edges.state import files
from controller.features.probing.path_record import PathEstimate, by_clock
from controller.features.probing.probed_paths import SentProbe
from controller.features.probing.schedule import PathDirection
from controller.model.config import ConfigError, Mode
from controller.model.decisions import Decisions, Used
from controller.model.in_force import InForce
from controller.model.overrides import MOST_RANGES, MOST_RELAYS, Overrides, PortRange, RelayOverride
from controller.policy.bandwidth.rates import Alpha, MeasuredRate, Method, Rate
from controller.protocol.enrolment import CONTROLLER, NAME

log = logging.getLogger(__name__)

# Estimates of paths, with times in Unix seconds

Pages = Mapping[PathDirection, PathEstimate]

MOST_HEADINGS = MOST_SITES * (MOST_UPLINKS + 2 * MOST_TERMINALS)  # two sites share the path of an uplink
MOST_METHODS = 16
MODES = {str(each): each for each in Mode}
METHODS = {str(each): each for each in Method}
DIRECTIONS = {"up": False, "down": True}


def written_estimates(pages: Pages) -> list[dict[str, Any]]:
    return [
        {
            "site": site,
            "uplink": uplink,
            "direction": "down" if down else "up",
            "alpha": asdict(page.alpha) if page.alpha else None,
            "measured": [{"method": one.method, "at": one.at, **asdict(one.rate)} for one in page.measured],
            "spent": asdict(page.spent) if page.spent else None,
        }
        for ((site, uplink), down), page in sorted(pages.items())
    ]


def read_estimates(place: Node) -> dict[PathDirection, PathEstimate]:
    return dict(_page(each) for each in place.each(MOST_HEADINGS, "directions of paths"))


def _page(place: Node) -> tuple[PathDirection, PathEstimate]:
    keys = place.mapping(required=("site", "uplink", "direction", "alpha", "measured", "spent"))
    alpha = None if keys["alpha"].value is None else _alpha(keys["alpha"])
    measured = tuple(_measurement(each) for each in keys["measured"].each(MOST_METHODS, "methods"))
    spent = None if keys["spent"].value is None else _spent_on_probe(keys["spent"])
    at = (keys["site"].text(), keys["uplink"].text())
    return (at, keys["direction"].choice(DIRECTIONS)), PathEstimate(alpha=alpha, measured=measured, spent=spent)


def _alpha(place: Node) -> Alpha:
    keys = place.mapping(required=("s_per_byte", "error"))
    return Alpha(files.number(keys["s_per_byte"]), files.number(keys["error"]))


def _measurement(place: Node) -> MeasuredRate:
    keys = place.mapping(required=("method", "at", "bps", "least_bps", "most_bps"))
    bps, least, most = (files.number(keys[name]) for name in ("bps", "least_bps", "most_bps"))
    if not 0 < least <= bps <= most:
        raise place.wrong("a rate above 0, between its lower and upper end")
    return MeasuredRate(keys["method"].choice(METHODS), Rate(bps, least, most), files.moment(keys["at"]))


def _spent_on_probe(place: Node) -> SentProbe:
    keys = place.mapping(required=("at", "bytes"))
    return SentProbe(files.moment(keys["at"]), files.count(keys["bytes"]))


VERSION = 6
SINCE = ("decided", "once", "copies", "relays", "used")  # keys added since version 1, one each
SINCE_VERSION = {1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 6: 5}  # by version of a file: how many of these keys it has

T = TypeVar("T")


class StoreError(Exception):
    """The state file is unusable. The sentence names fault and remedy."""


class Store:
    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def load(self) -> InForce:
        return self._read(_in_force, InForce())

    def measured(self) -> Pages:
        """Return the estimates, with times in Unix seconds."""
        return self._read(_estimates, {})

    def _read(self, read: Callable[[Node], T], otherwise: T) -> T:
        try:
            text = files.read(self._path)
        except FileNotFoundError:
            return otherwise
        except OSError as error:
            raise StoreError(
                f"{self._path} cannot be read ({error.strerror}): {files.remedy(error)}, or move it away to "
                "start without it"
            ) from None
        try:
            return read(files.document(self._path, text))
        except ConfigError as error:
            raise StoreError(
                f"{error}; this file holds overrides and decisions: move it away to start without them"
            ) from None

    def save(self, in_force: InForce, measured: Pages | None = None) -> None:
        content = {
            "version": VERSION,
            "modes": dict(in_force.overrides.modes),
            "active": dict(in_force.overrides.active),
            "decided": dict(in_force.decisions.active),
            "once": sorted(in_force.decisions.eliminating),
            "copies": dict(in_force.decisions.copies),
            "used": {name: asdict(used) for name, used in in_force.decisions.used.items()},
            "relays": {
                name: {**asdict(each), "address": str(each.address)} for name, each in in_force.overrides.relays.items()
            },
            "paths": written_estimates(measured or {}),
        }
        try:
            files.replace(self._path, json.dumps(content, indent=1, sort_keys=True).encode())
        except OSError as error:
            raise StoreError(
                f"{self._path} cannot be written ({error.strerror}), so a restart would lose the latest changes: "
                f"{files.remedy(error)}"
            ) from None


def _keys(place: Node) -> Mapped:
    newer = SINCE[: SINCE_VERSION[files.version(place, *SINCE_VERSION)]]
    # Older files have estimates under "roads", which are measured again, and bytes of copies alone under "spent".
    return place.mapping("paths", "roads", "spent", required=("version", "modes", "active", *newer))


def _estimates(place: Node) -> Pages:
    return _keys(place).maybe("paths", read_estimates, {})


def _in_force(place: Node) -> InForce:
    keys = _keys(place)
    return InForce(
        Overrides(
            {name: each.choice(MODES) for name, each in keys["modes"].named().items()},
            active=_uplinks(keys["active"]),
            relays=keys.maybe("relays", _relays, {}),
        ),
        Decisions(
            active=keys.maybe("decided", _uplinks, {}),
            eliminating=keys.maybe("once", _names, frozenset()),
            copies=keys.maybe("copies", _copies, {}),
            used=keys.maybe("used", _used, {}),
        ),
    )


def _names(place: Node) -> frozenset[str]:
    return frozenset(each.text() for each in place.each(MOST_SITES, "sites"))


def _copies(place: Node) -> dict[str, bool]:
    return {name: _flag(each) for name, each in place.named().items()}


def _flag(place: Node) -> bool:
    if not isinstance(place.value, bool):
        raise place.wrong("true or false")
    return place.value


def _used(place: Node) -> dict[str, Used]:
    found = {}
    for name, each in place.named().items():
        keys = each.mapping(required=("period", "by_counter", "used_up", "read"))
        used_up = None if keys["used_up"].value is None else files.count(keys["used_up"])
        by_counter, read = _counts(keys["by_counter"]), _counts(keys["read"])
        found[name] = Used(files.period(keys["period"]), by_counter, used_up, read)
    return found


def _counts(place: Node) -> dict[str, int]:
    return {name: files.count(each) for name, each in place.named().items()}


def _relays(place: Node) -> dict[str, RelayOverride]:
    found = place.named()
    for name, each in found.items():
        if not NAME.fullmatch(name) or name == CONTROLLER:
            raise ConfigError(each.file, place.where, name, "a valid name for a relay")
    return {name: _relay(each) for name, each in found.items()}


def _relay(place: Node) -> RelayOverride:
    keys = place.mapping(required=("address", "port", "allowed", "congestion", "draining", "number"))
    return RelayOverride(
        keys["address"].address(),
        _port(keys["port"]),
        tuple(_range(each) for each in keys["allowed"].each(MOST_RANGES, "ranges of ports")),
        None if keys["congestion"].value is None else keys["congestion"].text(),
        _flag(keys["draining"]),
        _number(keys["number"]),
    )


def _number(place: Node) -> int:
    number = files.count(place)
    if number >= MOST_RELAYS:
        raise place.wrong(f"a number below {MOST_RELAYS}")
    return number


def _range(place: Node) -> PortRange:
    keys = place.mapping(required=("first", "last"))
    return PortRange(_port(keys["first"]), _port(keys["last"]))


def _port(place: Node) -> int:
    port = files.count(place)
    if not 1 <= port <= 65535:
        raise place.wrong("a port, from 1 to 65535")
    return port


def _uplinks(place: Node) -> dict[str, str]:
    return {name: each.text() for name, each in place.named().items()}


def measured(store: Store, now: float, wall_offset_s: float) -> Pages:
    """Return the estimates, with times of the new core's clock."""
    return {way: by_clock(page, lambda at: min(at - wall_offset_s, now)) for way, page in store.measured().items()}
