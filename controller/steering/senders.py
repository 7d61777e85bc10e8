"""What senders tell of copies: an agent's report and the one before it, as evidence of terminals' active uplinks.

What a terminal sends is copied, so what it sent again counts. What others send to it does where the other end of its
uplinks is ours, and copies, too; a plain router brings that back as its routes say, copies or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from controller.known import Wanted
from controller.policy.evidence import Ledger, weigh
from controller.policy.tallies import Evidence, of_senders
from controller.policy.ways import Home, Leaves, Way, way
from controller.reports import Reported


class Senders:
    def __init__(self) -> None:
        self._ledgers: dict[int, Ledger] = {}  # by session

    def closed(self, session: int) -> None:
        self._ledgers.pop(session, None)

    def told(
        self, event: Reported, at_terminal: bool, homes: Mapping[str, Home], wanted: Wanted
    ) -> dict[str, Evidence]:
        """By terminal. Of whose packets some are copied and some not, nothing: which one was lost no report tells."""
        active: dict[str, str] = {}  # of those of whom it counts

        ways: dict[str, Way] = {}

        def way_of(home: Home) -> Way:
            """Whether it is copied or not, all of it rides the active uplink."""
            name = home.terminal.name
            if name not in ways:
                found = way(home.site, home.terminal, wanted)
                if found.leaves in (Leaves.BY_ACTIVE, Leaves.BY_ALL):
                    active[name] = found.active
                ways[name] = replace(found, leaves=Leaves.BY_ACTIVE)
            return ways[name]

        home_of = homes.get if at_terminal else _mirrored(homes.get)
        before = self._ledgers.get(event.session)
        weighed = weigh(before, event.connections, event.interval_ms, at_terminal, home_of, way_of, event.confirmed)
        self._ledgers[event.session] = weighed.ledger
        lasted_s = event.interval_ms / 1000
        return {
            terminal: of_senders(reading, weighed.late[terminal, uplink], lasted_s)
            for (terminal, uplink), reading in weighed.readings.items()
            if active.get(terminal) == uplink
        }


def _mirrored(home_of: Callable[[str], Home | None]) -> Callable[[str], Home | None]:
    """What goes there leaves as what comes from there does, whatever the address's subnet."""

    def found(address: str) -> Home | None:
        home = home_of(address)
        return replace(home, uplink=None) if home is not None and home.site.other_end is not None else None

    return found
