"""From a place that is sought to the relay by which it is reached: who is to walk, and what follows from that.

sought ─► walks: gateway to the place, gateway to each relay, each relay to the place ─► ways ─► choice

So much for a place as there are relays, and nothing for places that nobody seeks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from controller.model import Choosing, Fallback, Site
from controller.orders import Choices, WalkTo
from controller.policy.relays import BUSY_FROM, Candidate
from controller.relaying.choosing import CHOOSE, Question, candidate
from controller.relaying.hosts import Figures, Gateway, Station
from controller.relaying.places import Place, Places
from controller.relaying.walking import Walker
from controller.relaying.ways import Ways
from controller.relays import WishedRelay
from controller.reports import Sought, Way

NONE = Choices()
MOST_PLACES = 256  # of all sites together
FELT_PERCENT = round(100 * BUSY_FROM)

UplinkBps = Callable[[str, float], float | None]
"""What a site's fastest uplink carries towards it just now; None: nobody knows."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A site, and by whom its connections may go."""

    site: Site
    gateway: Gateway
    relays: Mapping[str, WishedRelay]  # that it reaches and that take something new, those that are heard first
    stations: Mapping[str, Station]  # of those that are heard
    figures: Mapping[str, Figures]

    @property
    def method(self) -> Choosing:
        assert self.site.relaying is not None
        return self.site.relaying.choose

    @property
    def may_go_direct(self) -> bool:
        assert self.site.relaying is not None
        return self.site.relaying.fallback is Fallback.DIRECT


class Seeking:
    def __init__(self, uplink_bps: UplinkBps) -> None:
        self._uplink_bps = uplink_bps
        self.ways = Ways()
        self._places: dict[str, Places] = {}  # by site
        self._moods: dict[str, tuple[tuple[str, bool, int, int], ...]] = {}  # likewise: of relays, at the last choice

    def keep(self, sites: Iterable[str]) -> None:
        self._places = {site: self._places.get(site, Places()) for site in sites}

    def place(self, site: str, prefix: str) -> Place | None:
        return self._places[site].by_prefix.get(prefix)

    def counted(self, site: str) -> tuple[int, int]:
        """Places, and those of them for which something is chosen."""
        places = self._places[site].by_prefix.values()
        return len(places), sum(each.choice is not None for each in places)

    def seek(self, scene: Scene, one: Sought, now: float) -> None:
        """Who is sought over and over is looked after again when what was asked has settled."""
        place = self._sought(scene, one)
        if not place.settles(now):
            place.walked_for_at = now
            self._walk(self._ways_for(scene, place), now)

    def ask(self, scene: Scene, one: Sought, now: float, anew: bool) -> list[tuple[str, str]]:
        """The ways, from whom and to which address, that are walked for it; `anew`: also where they are known."""
        place = self._sought(scene, one)
        place.walked_for_at = now
        return self._walk(self._ways_for(scene, place), now, anew)

    def _sought(self, scene: Scene, one: Sought) -> Place:
        place = self._places[scene.site.name].sought(one)
        while sum(len(each.by_prefix) for each in self._places.values()) > MOST_PLACES:
            max(self._places.values(), key=lambda each: len(each.by_prefix)).forget_oldest()  # of who has most
        return place

    def _ways_for(self, scene: Scene, place: Place) -> Iterator[tuple[Walker, WalkTo]]:
        there = WalkTo(place.address, place.port, scene.method is Choosing.TRACEROUTE)
        if scene.relays:
            yield scene.gateway.walker, there
        for name, each in scene.relays.items():
            yield scene.gateway.walker, WalkTo(str(each.address), each.port)
            if name in scene.stations:
                yield scene.stations[name].walker, there

    def _walk(self, ways: Iterable[tuple[Walker, WalkTo]], now: float, anew: bool = False) -> list[tuple[str, str]]:
        walked = []
        for walker, to in ways:
            if anew or self.ways.is_due(walker.name, to.address, now, to.routers):
                walker.want(to)
                if walker.is_on_its_way(to.address):
                    walked.append((walker.name, to.address))
        return walked

    def told(self, who: str, ways: Iterable[Way], now: float) -> None:
        """By a gateway: of its own site. By a relay: of all."""
        for way in ways:
            self.ways.tell(who, way, now)
            if who in self._places:
                self._told_by_gateway(self._places[who], way.address)
            else:
                for places in self._places.values():
                    places.touch(way.address)

    def _told_by_gateway(self, places: Places, address: str) -> None:
        is_a_place = any(place.address == address for place in places.by_prefix.values())
        places.touch(address if is_a_place else None)

    def touch(self, site: str) -> None:
        self._places[site].touch()

    def choose(self, scene: Scene, now: float) -> None:
        way = CHOOSE.get(scene.method)
        if way is None:
            return
        if self._moods.get(scene.site.name) != (moods := _moods(scene)):
            self._moods[scene.site.name] = moods
            self.touch(scene.site.name)
        for place in list(self._places[scene.site.name].to_choose(lambda one: self._waits(scene, one), now)):
            place.due, place.chosen_at = False, now
            if place.choice is not None and self._is_compared(scene, place, now) and self._is_open(scene, place, now):
                self._walk(self._ways_for(scene, place), now)
                continue  # what was chosen stands until that is told
            question = self.question(scene, place, now)
            place.choice = way(question) if question is not None else None
            if place.choice is not None:
                place.present = place.choice.relays

    def question(self, scene: Scene, place: Place, now: float) -> Question | None:
        """None: there is nothing to choose from, or nothing to compare it with."""
        name = scene.site.name
        direct = self.ways.leg(name, place.address, now)
        if direct is None or not scene.relays or self._is_open(scene, place, now):
            return None
        relaying = scene.site.relaying
        uplink_bps = (relaying and relaying.bandwidth_bps) or self._uplink_bps(name, now)
        candidates = (self._candidate(scene, each, place, uplink_bps, now) for each in scene.relays)
        there = tuple(each for each in candidates if each is not None)
        return Question(place.prefix, replace(direct, bandwidth_bps=uplink_bps), there, place.present, uplink_bps)

    def _is_compared(self, scene: Scene, place: Place, now: float) -> bool:
        """Whether it is known how far it is directly: who is sought no more is not walked to for ever."""
        return self.ways.leg(scene.site.name, place.address, now) is not None

    def _is_open(self, scene: Scene, place: Place, now: float) -> bool:
        """Whether a way is to be walked first: a relay is not left because that to it has been known for longer, or
        because it was not heard when the place was sought. Who is sought without a choice is walked to."""
        return any(
            walker.unable is None
            and not walker.is_on_its_way(to.address)
            and self.ways.is_open(walker.name, to.address, now)
            for walker, to in self._ways_for(scene, place)
        )

    def together(self, site: Site) -> frozenset[tuple[str, ...]]:
        """Relays that connections of a site go by at once."""
        places = self._places.get(site.name)
        parallel = site.relaying is not None and site.relaying.choose is Choosing.PARALLEL
        return places.together() if places is not None and parallel else frozenset()

    def choices(self, scene: Scene) -> Choices:
        if scene.method not in CHOOSE:
            return NONE
        return Choices(self._places[scene.site.name].choices(scene.relays, scene.may_go_direct))

    def _candidate(
        self, scene: Scene, name: str, place: Place, uplink_bps: float | None, now: float
    ) -> Candidate | None:
        near = self.ways.leg(scene.site.name, str(scene.relays[name].address), now)
        far = self.ways.leg(name, place.address, now)
        if near is None or far is None:
            return None
        figures = scene.figures.get(name)
        return candidate(name, replace(near, bandwidth_bps=uplink_bps), far, figures.told if figures else None)

    def _waits(self, scene: Scene, place: Place) -> bool:
        """For walks, and for relays that nobody has heard: after a restart they come one after the other."""
        if any(name not in scene.figures for name in scene.relays):
            return True
        gateway = scene.gateway.walker
        near = (str(each.address) for each in scene.relays.values())
        far = (each.walker for each in scene.stations.values())
        return any(gateway.is_on_its_way(each) for each in (place.address, *near)) or any(
            walker.is_on_its_way(place.address) for walker in far
        )


def _moods(scene: Scene) -> tuple[tuple[str, bool, int, int], ...]:
    """Who is heard, and what is felt of relays' own figures: others change from report to report."""
    told = ((name, each.told) for name, each in scene.figures.items() if name in scene.relays)
    return tuple(
        (name, name in scene.stations, max(one.busy_percent, FELT_PERCENT) // 5, one.overhead_us // 1000)
        for name, one in told
    )
