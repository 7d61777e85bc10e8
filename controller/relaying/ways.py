"""How far places are from where agents walked to them, as they told it last."""

from __future__ import annotations

from dataclasses import dataclass, replace

from controller.policy.legs import Leg, Router
from controller.policy.relays import OLD_S
from controller.reports import Way

KEPT_S = OLD_S
RENEWED_AFTER_S = KEPT_S / 2  # when somebody asks for it
FAILED_KEPT_S = 60.0
MOST = 1 << 15


@dataclass(frozen=True, slots=True)
class Known:
    way: Way
    at: float
    tried_at: float  # later: it was not to be had again

    def leg(self, who: str, now: float) -> Leg | None:
        """None: it is not known how far that is. Of loss five packets tell nothing."""
        if not self.way.rtt_us or now - self.at > KEPT_S:
            return None
        routers = (
            Router(router.address or f"{who}, {number} away", router.rtt_us / 1e3)  # silent ones are like no other
            for number, router in enumerate(self.way.routers, 1)
        )
        return Leg(self.way.rtt_us / 1e3, age_s=now - self.at, routers=tuple(routers))


class Ways:
    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Known] = {}  # by agent and address; the newest last

    def tell(self, who: str, way: Way, now: float) -> None:
        """That it is not known now does not end what is known of before."""
        known = self._known.pop((who, way.address), None)
        lasts = known is not None and known.way.rtt_us and now - known.at <= KEPT_S
        if known is not None and lasts and not way.rtt_us:
            self._known[who, way.address] = replace(known, tried_at=now)
        else:
            self._known[who, way.address] = Known(way, now, now)
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def forget(self, who: str) -> None:
        self._known = {key: known for key, known in self._known.items() if key[0] != who}

    def get(self, who: str, address: str) -> Known | None:
        return self._known.get((who, address))

    def leg(self, who: str, address: str, now: float) -> Leg | None:
        known = self.get(who, address)
        return known.leg(who, now) if known else None

    def is_open(self, who: str, address: str, now: float) -> bool:
        """Whether nobody has tried for so long that it may be known as well as not."""
        known = self.get(who, address)
        return known is None or (known.way.rtt_us > 0 and now - known.at > KEPT_S)

    def is_due(self, who: str, address: str, now: float, routers: bool = False) -> bool:
        """Whether it is worth a walk."""
        known = self.get(who, address)
        if known is None:
            return True
        if not known.way.rtt_us or known.tried_at > known.at:
            return now - known.tried_at > FAILED_KEPT_S
        return now - known.at > RENEWED_AFTER_S or (routers and not known.way.routers)
