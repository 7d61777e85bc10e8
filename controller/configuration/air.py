"""The access points of a site: the air that terminals share, and the rule by which."""

from __future__ import annotations

from controller.configuration.document import Place
from controller.model import AccessPoint, CapRule, CapTables

MOST_ACCESS_POINTS = 250
LEAST_BPS, MOST_BPS = 10_000, 10**12  # who writes fewer means Mbit/s
A_RATE = "a whole number of bit/s, from 10000 to 10^12, such as 20000000 for 20 Mbit/s"


def access_points(place: Place) -> tuple[AccessPoint, ...]:
    return tuple(_access_point(name, inner) for name, inner in place.by_name(MOST_ACCESS_POINTS, "access points"))


def _access_point(name: str, place: Place) -> AccessPoint:
    keys = place.mapping("bandwidth_bps", "rule", "tables", "measure")
    bandwidth_bps = keys.maybe("bandwidth_bps", lambda at: at.integer(LEAST_BPS, MOST_BPS, A_RATE), None)
    rule = keys.maybe("rule", lambda at: at.choice({rule.value: rule for rule in CapRule}), CapRule.OFF)
    every = {tables.value: tables for tables in CapTables}
    tables = keys.maybe("tables", lambda at: at.choice(every), CapTables.JELLY_BEAN)
    return AccessPoint(name, bandwidth_bps, rule, tables, keys.maybe("measure", Place.address, None))
