"""What an access point carries, as far as its terminals' deliveries tell, where gateway.yaml does not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from controller.policy import delivered
from controller.policy.airrate import AirRate, Use, use
from controller.policy.caps import Ruling
from controller.policy.delivered import Delivered
from controller.policy.flows import Flow
from controller.policy.fusing import Figure
from controller.policy.sharers import SILENT_PERIODS, Sharer, silent

LATE_S = 1.0  # a report


class Meter:
    """What terminals deliver, and what an access point carries, where nobody wrote it."""

    def __init__(self) -> None:
        self.rate = AirRate()
        # By terminal, as its gateway counts it, and as it says itself. Where the first is known the second is not
        # asked: what a terminal says of itself is to change nothing for others.
        self._passed: dict[str, Delivered] = {}
        self._told: dict[str, Delivered] = {}

    def passed(self, terminal: str, flows: Iterable[Flow], seconds: float, now: float) -> None:
        """Since the gateway's last report, which was so long ago."""
        _count(self._passed, terminal, flows, seconds, now)

    def told(self, terminal: str, flows: Iterable[Flow], seconds: float, now: float) -> None:
        _count(self._told, terminal, flows, seconds, now)

    def uses(self, sharers: Iterable[Sharer], ruling: Ruling, now: float) -> list[Use]:
        """What terminals make of the air just now; `ruling` is in force."""
        uses = (self._use(sharer, ruling, now) for sharer in sharers if not silent(sharer, now))
        return [each for each in uses if each is not None]

    def look(self, uses: Collection[Use], active: int, now: float, probed: Callable[[], Figure | None]) -> int | None:
        """What is divided from now on. `probed` is asked where nothing was delivered yet."""
        self.rate = self.rate.after(uses, active, now)
        if self.rate.asks_trains:
            self.rate = self.rate.by_trains(probed(), now)
        return None if self.rate.bps is None else round(self.rate.bps)

    def _use(self, sharer: Sharer, ruling: Ruling, now: float) -> Use | None:
        for counted in (self._passed, self._told):
            one = counted.get(sharer.terminal)
            if one is not None and now - one.heard_at <= SILENT_PERIODS * sharer.period_s and one.bps is not None:
                return use(sharer, one.bps, ruling.caps.get(sharer.terminal))
        return None


def _count(known: dict[str, Delivered], terminal: str, flows: Iterable[Flow], seconds: float, now: float) -> None:
    before = known.get(terminal)
    if before is not None and now - before.heard_at > seconds + LATE_S:
        before = None  # of what came meanwhile nobody knows how long it took
    known[terminal] = delivered.heard(before, flows, seconds, now)
