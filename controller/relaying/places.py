"""Places that a site's terminals seek, and what was chosen for each."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field

from controller.orders import RelayChoice
from controller.policy.relays import Choice
from controller.reports import Sought

SETTLES_S = 5.0  # by then what walks have told is what there is to choose by
REVIEWED_EVERY_S = 60.0  # what it follows from has become older
MOST_REVIEWED = 32  # at once: each is weighed for every relay


@dataclass(slots=True)
class Place:
    prefix: str
    address: str  # that was sought there first: it stands for all
    port: int
    walked_for_at: float | None = None
    choice: Choice | None = None  # None: it is not made yet, or was too long ago
    present: tuple[str, ...] = ()  # what was chosen last, however long ago
    chosen_at: float = 0.0
    due: bool = field(default=False, repr=False)  # something that it follows from is another

    def settles(self, now: float) -> bool:
        return self.walked_for_at is not None and now - self.walked_for_at < SETTLES_S


class Places:
    """Of one site."""

    def __init__(self) -> None:
        self.by_prefix: dict[str, Place] = {}  # who was sought last, last

    def sought(self, one: Sought) -> Place:
        place = self.by_prefix.pop(one.prefix, None)
        self.by_prefix[one.prefix] = place or Place(one.prefix, one.address, one.port, due=True)
        return self.by_prefix[one.prefix]

    def forget_oldest(self) -> None:
        del self.by_prefix[next(iter(self.by_prefix))]

    def touch(self, address: str | None = None) -> None:
        """All of them, or those of an address, follow from something else than before."""
        for place in self.by_prefix.values():
            if address in (None, place.address):
                place.due = True

    def to_choose(self, waits: Callable[[Place], bool], now: float) -> Iterator[Place]:
        found = 0
        for place in self.by_prefix.values():
            old = place.choice is not None and now - place.chosen_at > REVIEWED_EVERY_S
            if not (place.due or old) or (place.settles(now) and waits(place)):
                continue
            found += 1
            if found > MOST_REVIEWED:
                return
            yield place

    def together(self) -> frozenset[tuple[str, ...]]:
        """Those that were chosen at once, also where it is being found out whether they would be again."""
        return frozenset(each.present for each in self.by_prefix.values() if len(each.present) > 1)

    def choices(self, usable: Container[str], may_go_direct: bool) -> tuple[RelayChoice, ...]:
        """Of relays that are out of use none is named; where no other is left, nothing is chosen for the time."""
        found = (self._choice(place, usable, may_go_direct) for place in self.by_prefix.values())
        return tuple(sorted((each for each in found if each is not None), key=lambda one: one.prefix))

    def _choice(self, place: Place, usable: Container[str], may_go_direct: bool) -> RelayChoice | None:
        if place.choice is None:
            return None
        left = tuple(name for name in place.choice.relays if name in usable)
        if not left and (place.choice.relays or not may_go_direct):
            return None
        return RelayChoice(place.prefix, left, together=len(left) > 1)
