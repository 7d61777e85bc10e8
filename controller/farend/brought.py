"""What each uplink brought of the packets that came by all of them, at each site where copies come in.

Of what another uplink brought, and the active one did not, it is known that it was lost: as long as nothing is sent by
that other one alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.known import Wanted
from controller.model import Mode, Site, Terminal
from controller.policy.tallies import Evidence, of_copies
from controller.reports import Elimination, PathCopies

SETTLED_S = 0.5  # after a change of modes: switches follow, and what is under way arrives

Riding = frozenset[tuple[str, frozenset[Mode], str]]  # of each terminal: its name, modes and active uplink


@dataclass(frozen=True, slots=True)
class Told:
    paths: Mapping[str, PathCopies]
    riding: Riding
    since: float  # they ride so, as far as was looked


class Brought:
    def __init__(self) -> None:
        self._told: dict[str, Told] = {}  # by site, the last word

    def told(
        self, here: Site, there: Site, told: Elimination, lasted_s: float, wanted: Wanted, now: float
    ) -> dict[str, Evidence]:
        """By active uplink."""
        home = here if here.mirrors is None else there  # a mode is of both directions
        riding = frozenset(_ridden(home, each, wanted) for each in home.terminals)
        before = self._told.get(here.name)
        same = before is not None and before.riding == riding
        now_told = Told({path.name: path for path in told.paths}, riding, before.since if before and same else now)
        self._told[here.name] = now_told
        if before is None or not same or now - lasted_s - before.since < SETTLED_S or here.name not in wanted.once:
            return {}
        alone = frozenset(_alone(riding, there))
        found = {}
        without = wanted.barred.get(home.name, frozenset())  # of what rides another uplink they get no copies
        for uplink in {active for _, _, active in riding if alone <= {active}} - without:
            evidence = of_copies(uplink, before.paths, now_told.paths, lasted_s)
            if evidence is not None:
                found[uplink] = evidence
        return found


def _ridden(home: Site, terminal: Terminal, wanted: Wanted) -> tuple[str, frozenset[Mode], str]:
    modes = (wanted.acting_of(home, terminal, traffic.name) for traffic in home.named)
    return (
        terminal.name,
        frozenset((wanted.acting(home, terminal), *modes)),
        wanted.active_uplink(home, terminal),
    )


def _alone(riding: Riding, there: Site) -> Iterator[str]:
    """The uplinks by which something comes of which no copy does."""
    for _, modes, active in riding:
        if Mode.OFF in modes:
            yield from (uplink.name for uplink in there.uplinks)
        if Mode.SINGLE in modes or there.bicast_once.protocols:
            yield active
