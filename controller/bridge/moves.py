"""Gateways that have decisions to follow. Of many decisions at once a gateway's program is compiled once: a path that
dies may move hundreds of terminals, and each compilation is of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.bridge.switch import Switch
from controller.counting import counted
from controller.events import Apply, Effect, ModifyGroup
from controller.known import Wanted
from controller.steering.logbook import Entry, Logbook

APART_S = 0.05


class Moves:
    def __init__(self) -> None:
        self._owed: dict[int, list[Entry]] = {}  # by dpid
        self._followed_at: dict[int, float] = {}

    def owe(self, ends: tuple[int, ...], entry: Entry) -> None:
        """Of both ends, by dpid; the entry tells what comes of it at the first one, the terminal's own."""
        own, *others = ends
        self._owed.setdefault(own, []).append(entry)
        for other in others:
            self._owed.setdefault(other, [])

    def due(self, now: float) -> Iterator[tuple[int, list[Entry]]]:
        for dpid in [dpid for dpid in self._owed if now >= self._at(dpid)]:
            self._followed_at[dpid] = now
            yield dpid, self._owed.pop(dpid)

    @property
    def next_at(self) -> float | None:
        return min(map(self._at, self._owed), default=None)

    def _at(self, dpid: int) -> float:
        return self._followed_at.get(dpid, -APART_S) + APART_S


def follow(switch: Switch, entries: Iterable[Entry], wanted: Wanted, book: Logbook, now: float) -> Iterator[Effect]:
    """Settle a gateway, and have the entries tell what came of it."""
    entries, name = list(entries), switch.site.name
    for entry in entries:
        entry.gateway.done, entry.gateway.said = True, f"gateway {name}: its groups did not have to change"
        if switch.session is None:
            entry.gateway.done, entry.gateway.said = False, f"gateway {name} is not connected; it follows when it is"
    for effect in switch.settle(wanted, now):
        if isinstance(effect, Apply):
            number = groups_modified([effect])
            said = f"gateway {name}: {counted(number, 'groups')} modified"
            book.sent(entries, effect.session, effect.ticket, said)
        yield effect


def groups_modified(effects: Iterable[Effect]) -> int:
    orders = (effect for effect in effects if isinstance(effect, Apply))
    return sum(isinstance(change, ModifyGroup) for order in orders for change in order.changes)
