"""The switches of the configuration in force, by dpid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from controller.bridge.switch import Switch
from controller.events import Close, Effect
from controller.known import Port, Wanted
from controller.model import Site
from controller.tickets import Tickets


class Switches(dict[int, Switch]):
    def __init__(self, sites: Iterable[Site], tickets: Tickets, now: float) -> None:
        super().__init__((site.dpid, Switch(site, tickets, now)) for site in sites)
        self._tickets = tickets

    def of(self, session: int) -> Switch | None:
        return next((each for each in self.values() if each.session == session), None)

    def ports(self) -> dict[int, Mapping[str, Port]]:
        """Of those that are connected."""
        return {dpid: each.observed.ports for dpid, each in self.items() if each.session is not None}

    def reconfigure(self, sites: Iterable[Site], wanted: Wanted, now: float) -> Iterator[Effect]:
        """A site that is gone keeps what it has on its switch, which is let go."""
        old = dict(self)
        self.clear()
        for site in sites:
            switch = old.pop(site.dpid, None)
            self[site.dpid] = switch or Switch(site, self._tickets, now)
            if switch is not None:
                yield from switch.reconfigure(site, wanted, now)
        for switch in old.values():
            waiting = switch.door.leave()
            for session in (switch.session, waiting.session if waiting else None):
                if session is not None:
                    yield Close(session, f"the site {switch.site.name} is no longer in the configuration")
