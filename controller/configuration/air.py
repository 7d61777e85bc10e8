"""The access points of a site: the air that terminals share, and the rule by which."""

from __future__ import annotations

from controller.configuration.document import Place
from controller.model import AccessPoint, CapRule, CapTables

MOST_ACCESS_POINTS = 250


def access_points(place: Place) -> tuple[AccessPoint, ...]:
    return tuple(_access_point(name, inner) for name, inner in place.by_name(MOST_ACCESS_POINTS, "access points"))


def _access_point(name: str, place: Place) -> AccessPoint:
    keys = place.mapping("bandwidth_bps", "rule", "tables", "measure")
    bandwidth_bps = keys.maybe("bandwidth_bps", Place.bits_per_second, None)
    rule = keys.maybe("rule", lambda at: at.choice({rule.value: rule for rule in CapRule}), CapRule.OFF)
    every = {tables.value: tables for tables in CapTables}
    tables = keys.maybe("tables", lambda at: at.choice(every), CapTables.JELLY_BEAN)
    return AccessPoint(name, bandwidth_bps, rule, tables, keys.maybe("measure", Place.address, None))
