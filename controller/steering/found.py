"""How one end of a terminal's connections was found: which uplinks it had as backup before we moved it. A host's owner
may have flagged what costs money, and gets that back when nobody steers any more.

    its own ──ordered, or a reflex fired──► ours ──given back, and answered──► its own
       └── found as a choice that outlived our restart would leave it ──► ours, and of before nothing is known
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.policy.evidence import Standing

SEEN_AFTER_S = 2.0  # reports were on their way when a hand moved
AGAIN_AFTER_S = 30.0


class Found:
    """Of one agent and one terminal."""

    def __init__(self) -> None:
        self.ours = False
        self._before: dict[str, bool] = {}  # by uplink: whether it was backup, up to the last report but one
        self._last: dict[str, bool] = {}  # a reflex may have fired before it, and be told after it
        self._giving_back: int | None = None  # the directive
        self._asked_at: float | None = None
        self._heeds_from = 0.0

    @property
    def known(self) -> dict[str, bool]:
        return {**self._last, **self._before}

    def reported(self, standing: Standing | None, chosen: str | None, now: float) -> None:
        """`chosen`: the uplink that somebody has chosen, a person or a policy."""
        if self.ours or now < self._heeds_from:
            return
        flags = _flags(standing)
        if chosen is not None and not self.known and any(flags.values()) and not flags.get(chosen):
            self.ours = True
            return
        self._before |= self._last
        self._last = flags

    def moved(self) -> None:
        self.ours, self._giving_back, self._asked_at = True, None, None

    def backup(self, uplinks: Iterable[str], default: str, at_terminal: bool) -> tuple[str, ...]:
        """Which of them it had as backup. Of one that it never told of, a terminal is not made to pay for it: that is
        its owner's to allow. Where connections are served nobody pays, and the terminal's own flags stand beside."""
        names, known = list(uplinks), self.known
        found = [name for name in names if known.get(name, at_terminal and name != default)]
        if len(found) < len(names):
            return tuple(found)
        spared = default if default in names else names[0]  # all of them backup is none of them backup
        return tuple(name for name in names if name != spared)

    def is_due(self, now: float) -> bool:
        return self.ours and (self._asked_at is None or now - self._asked_at >= AGAIN_AFTER_S)

    def gives_back(self, directive: int, now: float) -> None:
        self.ours, self._giving_back, self._asked_at = True, directive, now

    def answered(self, directive: int, reached: bool, now: float) -> None:
        if directive != self._giving_back:
            return
        self._giving_back = None
        if reached:
            self.ours, self._heeds_from = False, now + SEEN_AFTER_S


def _flags(standing: Standing | None) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for subflows in standing.connections.values() if standing else ():
        for each in subflows:
            found[each.uplink] = found.get(each.uplink, False) or each.by_us
    return found
