# SPDX-License-Identifier: Apache-2.0
"""The measured paths, and the interval between probes of each.

    near agent ── device, or addresses that lead over it ──►  health_port, probe port  far agent
      starts, measures both ways                                                         answers

A tunnel is measured outside of it, from host to host, by the end that knows the other one's address: that end starts
the tunnel too. Over the air the terminal starts, because a sleeping terminal cannot be reached.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from controller.model.config import Config, Site
from controller.model.uplink import Uplink
from controller.policy.bandwidth.rates import KEPT_S
from controller.protocol.orders import ProbeRoute
from controller.protocol.reports import Role
from controller.protocol.requests import Impossible

# Probes cost at most a hundredth of a path's capacity and of a day's budget

PART = 0.01
SMALL_DIFFER = 0.97  # margin: small packets are a tenth or an eighth of a probe, by its direction
SELDOM_S = 600.0  # shortest time between probes of the same path and direction
ASSUMED_BPS = 1e6  # of a path without an estimate
DAY_S = 86_400.0
KEPT_PAID_S = 3 * DAY_S  # age limit on metered paths, which may be probed only every second day
FIRST_AFTER_S = 5.0  # from the first answer to a health packet to the first probe
PAUSE_MS = 100  # between health packets
PAUSE_WATCHED_MS = 20  # the same while unreported traffic is sent
PAUSE_SPARED_MS = 1000  # the same on metered paths and on shared air
AGAIN_AFTER_S = 30.0  # until the next attempt, if a probe could not begin


@dataclass(frozen=True, slots=True)
class SentProbe:
    at: float  # when the probe began
    bytes: int


def period_s(sent_bytes: int, bps: float | None, back_bps: float | None) -> float:
    """Return the time between probes. The slower direction decides: each probe loads both directions."""
    slower_bps = min(bps or ASSUMED_BPS, back_bps or math.inf)
    return max(SELDOM_S, 8 * sent_bytes / (SMALL_DIFFER * PART * slower_bps))


def paid_at(spent: Iterable[SentProbe], wanted_bytes: int, budget_bytes: int) -> float | None:
    """Return when the budget allows a probe of `wanted_bytes`, or None if it never does.

    A probe may use half of PART, and the next waits in proportion to its bytes. So any 24 hours stay within PART.
    """
    half = PART / 2 * budget_bytes
    if wanted_bytes > half:
        return None
    last = max(spent, key=lambda one: one.at, default=None)
    return last.at + DAY_S * last.bytes / half if last is not None else 0.0


HEALTH_PORT = 8620
PROBE_PORTS = 8630  # plus the path's number

FIRST_OVER_AIR = 17  # above all uplinks' numbers
MOST_OVER_AIR = 239  # per site: an agent answers 256 sessions

At = tuple[str, str]  # the home site's name and the path's
End = tuple[Role, str]  # an agent; a terminal may have a site's name


@dataclass(frozen=True, slots=True)
class ProbedPath:
    site: str  # the home site
    uplink: str  # or TERMINAL@ACCESS_POINT, which no uplink can be named
    near: str  # sites or a terminal, and the agents of that name
    far: str
    route: ProbeRoute
    number: int  # of its session; unique among paths with the same end
    budget_bytes_per_day: int | None  # of a metered uplink
    access_point: str | None = None  # None: the near end is a site

    @property
    def at(self) -> At:
        return self.site, self.uplink

    @property
    def kept_s(self) -> float:
        return KEPT_S if self.budget_bytes_per_day is None else KEPT_PAID_S

    @property
    def near_end(self) -> End:
        return Role.GATEWAY if self.access_point is None else Role.TERMINAL, self.near

    @property
    def far_end(self) -> End:
        return Role.GATEWAY, self.far

    @property
    def ends(self) -> tuple[End, End]:
        return self.near_end, self.far_end

    @property
    def probe_port(self) -> int:
        return PROBE_PORTS + self.number


@dataclass(frozen=True, slots=True)
class Unmeasured:
    site: str
    uplink: str
    near: str
    far: str
    reason: str


def paths(config: Config) -> Iterator[ProbedPath | Unmeasured]:
    for home in config.sites:
        far = config.other_end(home)
        if home.peer_of is None and far is not None:
            for number, uplink in enumerate(sorted(home.uplinks, key=lambda each: each.name), 1):
                yield _path(home, far, uplink, number)
    for site in config.sites:
        yield from _over_air(site)


def wanted(there: Collection[ProbedPath | Unmeasured], site: str | None, uplink: str) -> tuple[ProbedPath, ...]:
    """Return the paths that a person names by either end, or raise Impossible."""
    named = [path for path in there if path.uplink == uplink]
    meant = [path for path in named if site in (None, path.site, path.near, path.far)]
    if not meant:
        found = ", ".join(sorted(f"{path.uplink} of {path.site}" for path in there)) or "none"
        at = f" of {site}" if site is not None else ""
        raise Impossible(f"no uplink {uplink}{at} leads to another site of the file; those that do: {found}")
    paths = tuple(path for path in meant if isinstance(path, ProbedPath))
    if not paths:
        whys = {one.site: one.reason for one in meant if isinstance(one, Unmeasured)}
        raise Impossible("; ".join(f"{uplink} of {at} is not measured: {reason}" for at, reason in whys.items()))
    return paths


def _path(home: Site, far: Site, uplink: Uplink, number: int) -> ProbedPath | Unmeasured:
    for here, there in ((home, far), (far, home)):
        way = _way(here.uplink(uplink.name))
        if way is not None:
            budget = uplink.limits.budget.bytes_per_day if uplink.limits.budget else None
            return ProbedPath(home.name, uplink.name, here.name, there.name, way, number, budget)
    reason = f"its kind is ethernet, and it has `measure` neither at {home.name} nor at {far.name}"
    return Unmeasured(home.name, uplink.name, home.name, far.name, reason)


def _over_air(site: Site) -> Iterator[ProbedPath | Unmeasured]:
    reached = {each.name: each.measure for each in site.access_points if each.measure is not None}
    there = (each for each in site.terminals if each.access_point in reached)
    for number, terminal in enumerate(sorted(there, key=lambda each: each.name), FIRST_OVER_AIR):
        air = terminal.access_point
        assert air is not None
        name, way = f"{terminal.name}@{air}", ProbeRoute(None, None, str(reached[air]))
        if number < FIRST_OVER_AIR + MOST_OVER_AIR:
            yield ProbedPath(site.name, name, terminal.name, site.name, way, number, None, air)
        else:
            reason = f"a gateway agent answers {MOST_OVER_AIR} terminals at most, and this one is beyond the limit"
            yield Unmeasured(site.name, name, terminal.name, site.name, reason)


def _way(uplink: Uplink) -> ProbeRoute | None:
    """Return the way if this end starts the measurement."""
    if uplink.tunnel is not None and uplink.tunnel.remote is not None:
        return ProbeRoute(uplink.tunnel.device, None, str(uplink.tunnel.remote))
    if uplink.measure is not None:
        return ProbeRoute(None, str(uplink.measure.local), str(uplink.measure.remote))
    return None
