"""The core: every switch, every wish and the configuration in force. An event in, effects out; time is an argument.

It runs in one thread (service.py) and knows neither OpenFlow nor HTTP.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

from controller.document import ConfigError
from controller.events import (
    Apply,
    Close,
    Effect,
    ModifyGroup,
    NeighbourSeen,
    PortSeen,
    Solicited,
    SwitchApplied,
    SwitchClosed,
    SwitchEvent,
    SwitchOpened,
    SwitchRead,
    SwitchRefused,
)
from controller.known import Wanted
from controller.model import EVERYBODY, Config, Family, Mode, Site, Terminal
from controller.switch import Switch
from controller.tickets import Tickets
from controller.wishes import Answer, Impossible, UnknownTerminal

log = logging.getLogger(__name__)


class Core:
    def __init__(self, config: Config, wanted: Wanted, now: float) -> None:
        self.config = config
        self.wanted = wanted
        self.config_failures = 0
        self.config_error: ConfigError | None = None
        self.config_loaded_at = now
        self._tickets = Tickets()
        self.switches = {site.dpid: Switch(site, self._tickets, now) for site in config.sites}

    # Switches

    def handle(self, event: SwitchEvent, now: float) -> Iterator[Effect]:
        if isinstance(event, SwitchOpened):
            yield from self._opened(event, now)
            return
        switch = next((each for each in self.switches.values() if each.session == event.session), None)
        if switch is None:
            for each in self.switches.values():
                each.door.hear(event)
            return  # of no one who waits either: the last words of a connection that has ended
        match event:
            case SwitchClosed():
                log.warning("%s: the switch is gone (%s)", switch.site.name, switch.peer)
                yield from self._left(switch, now)
            case SwitchRead():
                yield from switch.read(event, self.wanted, now)
            case SwitchApplied():
                yield from switch.door.answered(event.ticket, switch.peer, now)
                yield from switch.applied(event, now)
            case SwitchRefused():
                switch.refused(event, now)
            case PortSeen():
                yield from switch.port_seen(event, self.wanted, now)
            case NeighbourSeen():
                switch.neighbour_seen(event, now)
            case Solicited():
                yield from switch.solicited(event)

    def tick(self, now: float) -> Iterator[Effect]:
        for switch in self.switches.values():
            if switch.session is not None and switch.door.silent(now):
                yield Close(switch.session, "has not answered, and the same switch has connected again")
                yield from self._left(switch, now)
            switch.door.forget(now)
            yield from switch.tick(self.wanted, now)

    def rest(self, now: float) -> Iterator[Effect]:
        """Between bursts of events: what can be done once for many of them."""
        for switch in self.switches.values():
            yield from switch.rest(self.wanted, now)

    def _opened(self, event: SwitchOpened, now: float) -> Iterator[Effect]:
        switch = self.switches.get(event.dpid)
        if switch is None:
            reason = f"no site in the configuration has the dpid {event.dpid:016x}; nothing is installed on it"
            yield Close(event.session, reason)  # which is where it is told, once for each peer
            return
        if switch.session is not None:
            yield from switch.door.knock(event, switch.session, now)
        else:
            yield from self._served(switch, event, now)

    def _served(self, switch: Switch, event: SwitchOpened, now: float) -> Iterator[Effect]:
        log.info("%s: switch %016x is here, from %s", switch.site.name, event.dpid, event.peer)
        yield from switch.opened(event, now)

    def _left(self, switch: Switch, now: float) -> Iterator[Effect]:
        switch.closed(now)
        newcomer = switch.door.enter()
        if newcomer is not None:
            yield from self._served(switch, newcomer, now)

    # Configuration

    def reconfigure(self, config: Config, now: float) -> Iterator[Effect]:
        """Take a new configuration whole. A site that is gone keeps what it has on its switch, which is let go."""
        old, self.switches = self.switches, {}
        for site in config.sites:
            switch = old.pop(site.dpid, None)
            if switch is None:
                self.switches[site.dpid] = Switch(site, self._tickets, now)
                continue
            self.switches[site.dpid] = switch
            yield from switch.reconfigure(site, self.wanted, now)
        for switch in old.values():
            waiting = switch.door.leave()
            for session in (switch.session, waiting.session if waiting else None):
                if session is not None:
                    yield Close(session, f"the site {switch.site.name} is no longer in the configuration")
        self.config, self.config_error, self.config_loaded_at = config, None, now

    def refuse_config(self, error: ConfigError) -> None:
        self.config_failures += 1
        self.config_error = error
        log.error("the configuration is refused, the last good one stays in force: %s", error)

    # Wishes

    def wish_mode(self, name: str, mode: Mode, now: float) -> tuple[Answer, list[Effect]]:
        terminals = self._named(name)
        said = []
        for site, terminal in terminals:
            is_so = self.wanted.mode(terminal) is mode
            sentence = f"{terminal.name} is {'already ' if is_so else ''}in mode {mode.value}"
            said.append(sentence + self._when(site))
        modes = {**self.wanted.modes, **{terminal.name: mode for _, terminal in terminals}}
        return self._wish(replace(self.wanted, modes=modes), terminals, tuple(said), now)

    def wish_active(self, name: str, uplink: str, now: float) -> tuple[Answer, list[Effect]]:
        terminals = self._named(name)
        said = []
        for site, terminal in terminals:
            _reachable(site, terminal, uplink)
            is_so = self.wanted.active_uplink(site, terminal) == uplink
            sentence = f"{terminal.name} has {uplink} {'already ' if is_so else ''}as its active uplink"
            if self.wanted.mode(terminal) is Mode.OFF:
                sentence += "; in mode off each subnet keeps its own, so this counts from the next mode on"
            said.append(sentence + self._when(site))
        active = {**self.wanted.active, **{terminal.name: uplink for _, terminal in terminals}}
        return self._wish(replace(self.wanted, active=active), terminals, tuple(said), now)

    def _wish(
        self, wanted: Wanted, terminals: list[tuple[Site, Terminal]], said: tuple[str, ...], now: float
    ) -> tuple[Answer, list[Effect]]:
        learned = list(self.rest(now))  # its messages are not the wish's
        changed, self.wanted = wanted != self.wanted, wanted
        concerned = dict.fromkeys(site.dpid for site, _ in terminals)
        effects = [effect for dpid in concerned for effect in self.switches[dpid].settle(wanted, now)]
        orders = [effect for effect in effects if isinstance(effect, Apply)]
        messages = sum(isinstance(change, ModifyGroup) for order in orders for change in order.changes)
        return Answer(said, changed, messages), [*learned, *effects]

    def _when(self, site: Site) -> str:
        here = self.switches[site.dpid].session is not None
        return "" if here else f"; it is kept, and counts when gateway {site.name} connects"

    def _named(self, name: str) -> list[tuple[Site, Terminal]]:
        everybody = [(site, terminal) for site in self.config.sites for terminal in site.terminals]
        found = [each for each in everybody if name in (each[1].name, EVERYBODY)]
        if not found and name != EVERYBODY:
            known = ", ".join(sorted(terminal.name for _, terminal in everybody)) or "none"
            raise UnknownTerminal(f"no terminal is named {name!r}; there are: {known}")
        return found


def _reachable(site: Site, terminal: Terminal, name: str) -> None:
    uplink = next((each for each in site.uplinks if each.name == name), None)
    if uplink is None:
        there = ", ".join(each.name for each in site.uplinks)
        raise Impossible(f"the site {site.name} has no uplink named {name!r}; it has: {there}")
    missing = {
        family.version
        for family in map(Family.of, (at.address for at in terminal.addresses))
        if not uplink.next_hop(family)
    }
    if missing:
        families = " and ".join(f"IPv{version}" for version in sorted(missing))
        raise Impossible(f"uplink {name} has no next hop for {families}, which {terminal.name} uses")
