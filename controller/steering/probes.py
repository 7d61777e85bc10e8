"""What small packets tell of an uplink: a path's counts, and those of the report before it, as evidence."""

from __future__ import annotations

from collections.abc import Collection

from controller.measures import PathHealth
from controller.policy.tallies import Evidence, Source, Tally
from controller.reports import Reported


class Probes:
    def __init__(self) -> None:
        self._before: dict[tuple[int, str], PathHealth] = {}  # by session and uplink

    def closed(self, session: int) -> None:
        self._before = {at: path for at, path in self._before.items() if at[0] != session}

    def told(self, event: Reported, uplinks: Collection[str]) -> dict[str, Evidence]:
        """By uplink, of those that there are. Who lost which direction's packet does not matter: copies go both ways.
        Where none comes back by any of several it is who answers that is away, which says nothing of any."""
        found = {}
        for path in (each for each in event.health if each.name in uplinks):
            before, self._before[event.session, path.name] = self._before.get((event.session, path.name)), path
            if before is None or path.because or path.sent < before.sent:
                continue  # nothing is sent, or it counts anew
            sent, lost, late = path.sent - before.sent, path.lost - before.lost, path.late - before.late
            if 0 <= lost <= sent and 0 <= late <= sent:
                found[path.name] = Evidence(Source.PROBES, event.interval_ms / 1000, Tally(sent, lost, late))
        sent_by = [each.tally for each in found.values() if each.tally.packets]
        return {} if len(sent_by) > 1 and all(tally.lost == tally.packets for tally in sent_by) else found
