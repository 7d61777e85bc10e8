"""Roads: the uplinks between two sites that are each other's ends, and how packets of the sites' hosts take them.

    near agent ── device, or addresses that lead over it ──►  health_port, probe port  far agent
      starts, measures both ways                                                         answers

A tunnel is measured outside of it, from host to host: by the end that knows where the other one is, as it is the one
that starts the tunnel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from controller.model import Config, Site, Uplink
from controller.orders import MeasuredWay
from controller.wishes import Impossible

HEALTH_PORT = 8620
PROBE_PORTS = 8630  # and a road's number

At = tuple[str, str]  # a site's name, of the one that mirrors no other, and an uplink's


@dataclass(frozen=True, slots=True)
class Road:
    site: str  # whose uplinks these are
    uplink: str
    near: str  # sites, and agents
    far: str
    way: MeasuredWay
    number: int  # of its session; apart from those of all roads that end there
    budget_bytes_per_day: int | None  # where it is paid for by the byte

    @property
    def at(self) -> At:
        return self.site, self.uplink

    @property
    def ends(self) -> tuple[str, str]:
        return self.near, self.far

    @property
    def probe_port(self) -> int:
        return PROBE_PORTS + self.number


@dataclass(frozen=True, slots=True)
class Unmeasured:
    site: str
    uplink: str
    ends: tuple[str, str]
    because: str


def roads(config: Config) -> Iterator[Road | Unmeasured]:
    for home in config.sites:
        far = config.other_end(home)
        if home.mirrors is None and far is not None:
            for number, uplink in enumerate(sorted(home.uplinks, key=lambda each: each.name), 1):
                yield _road(home, far, uplink, number)


def wanted(there: Collection[Road | Unmeasured], site: str | None, uplink: str) -> tuple[Road, ...]:
    """Those that a person means, by either end's name; or Impossible."""
    named = [road for road in there if road.uplink == uplink]
    meant = [road for road in named if site in (None, road.site, *road.ends)]
    if not meant:
        found = ", ".join(sorted(f"{road.uplink} of {road.site}" for road in there)) or "none"
        at = f" of {site}" if site is not None else ""
        raise Impossible(f"no uplink {uplink}{at} leads to a site of ours; those that do: {found}")
    roads = tuple(road for road in meant if isinstance(road, Road))
    if not roads:
        whys = {one.site: one.because for one in meant if isinstance(one, Unmeasured)}
        raise Impossible("; ".join(f"{uplink} of {at} is not measured: {because}" for at, because in whys.items()))
    return roads


def _road(home: Site, far: Site, uplink: Uplink, number: int) -> Road | Unmeasured:
    for here, there in ((home, far), (far, home)):
        way = _way(here.uplink(uplink.name))
        if way is not None:
            budget = uplink.limits.budget_bytes_per_day
            return Road(home.name, uplink.name, here.name, there.name, way, number, budget)
    because = f"it is of kind ethernet, and `measure` is written at it neither at {home.name} nor at {far.name}"
    return Unmeasured(home.name, uplink.name, (home.name, far.name), because)


def _way(uplink: Uplink) -> MeasuredWay | None:
    """None: the other end starts, or nobody does."""
    if uplink.tunnel is not None and uplink.tunnel.remote is not None:
        return MeasuredWay(uplink.tunnel.device, None, str(uplink.tunnel.remote))
    if uplink.measure is not None:
        return MeasuredWay(None, str(uplink.measure.local), str(uplink.measure.remote))
    return None
