"""Which terminals have copies, in mode auto: evidence in, decisions out. What is decided of each is policy/adaptive's.

reports ──► senders ──► of a terminal ──┐
        └─► brought ──► of an uplink ───┴─► a watch for each terminal ──► decisions ──► the core changes what is wanted
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from controller.farend.brought import Brought
from controller.farend.ends import Ends
from controller.known import Wanted, without
from controller.model import Mode
from controller.policy import adaptive
from controller.policy.adaptive import Decision, Watch
from controller.policy.tallies import Evidence
from controller.reports import AgentClosed, AgentEvent, Elimination, Reported
from controller.steering.pilot import Pilot
from controller.steering.senders import Senders
from controller.steering.steered import Steered


class Copying:
    def __init__(self, pilot: Pilot, ends: Ends) -> None:
        self._pilot, self._ends = pilot, ends
        self._senders, self._brought = Senders(), Brought()
        self._watches: dict[str, Watch] = {}  # by terminal

    def watch(self, terminal: str) -> Watch | None:
        """None: nothing was heard of it in mode auto."""
        return self._watches.get(terminal)

    def wants_often(self, session: int, wanted: Wanted) -> bool:
        """Whether this agent should report as often as it may: it speaks for somebody who is decided of."""
        there = (self._pilot.steered[name] for name in self._pilot.speaks_for(session))
        return any(_is_auto(steered, wanted) for steered in there)

    def keep(self, wanted: Wanted) -> Wanted:
        """Of those alone who are in mode auto: who comes back to it begins anew."""
        gone = [name for name in {*wanted.copies, *self._watches} if not self._is_decided_of(name, wanted)]
        if not gone:
            return wanted
        self._watches = without(self._watches, gone)
        return replace(wanted, copies=without(wanted.copies, gone))

    # What is heard

    def hear(self, event: AgentEvent, wanted: Wanted, now: float) -> Iterator[Decision]:
        """Every report, however many an agent makes in a second."""
        match event:
            case AgentClosed():
                self._senders.closed(event.session)
            case Reported(elimination=Elimination()):
                yield from self._came(event, wanted, now)
            case Reported():
                speaker = self._pilot.speaker(event.session)
                if speaker is not None:
                    for name, evidence in self._senders.told(event, *speaker, wanted).items():
                        yield from self._told(self._pilot.steered[name], evidence, wanted, now)

    def _came(self, event: Reported, wanted: Wanted, now: float) -> Iterator[Decision]:
        ends = self._ends.at(event.session)
        if ends is None or event.elimination is None:
            return
        here, there = ends
        lasted_s = event.interval_ms / 1000
        home = here if here.mirrors is None else there
        for uplink, evidence in self._brought.told(here, there, event.elimination, lasted_s, wanted, now).items():
            for steered in (self._pilot.steered[terminal.name] for terminal in home.terminals):
                if wanted.active_uplink(home, steered.terminal) == uplink:
                    yield from self._told(steered, evidence, wanted, now)

    def _told(self, steered: Steered, evidence: Evidence, wanted: Wanted, now: float) -> Iterator[Decision]:
        if not _is_auto(steered, wanted) or steered.moved_since(now - evidence.lasted_s):
            return  # in the second case a part of it was another uplink's
        watch = adaptive.told(self._watch(steered, wanted, now), evidence, now)
        yield from self._decided(steered.name, watch, now)

    def _watch(self, steered: Steered, wanted: Wanted, now: float) -> Watch:
        active = wanted.active_uplink(steered.site, steered.terminal)
        known = self._watches.get(steered.name)
        if known is None:
            return Watch(active, now, wanted.copies.get(steered.name, True))
        return adaptive.moved(known, active, now)

    def _decided(self, name: str, watch: Watch, now: float) -> Iterator[Decision]:
        decision = adaptive.decide(name, watch, now)
        self._watches[name] = watch if decision is None else adaptive.decided(watch, decision)
        if decision is not None:
            yield decision

    def _is_decided_of(self, name: str, wanted: Wanted) -> bool:
        steered = self._pilot.steered.get(name)
        return steered is not None and _is_auto(steered, wanted)


def _is_auto(steered: Steered, wanted: Wanted) -> bool:
    """It is, or a class of its traffic."""
    modes = (wanted.mode_of(steered.terminal, each.name) for each in steered.site.named)
    return Mode.AUTO in (wanted.mode(steered.terminal), *modes)
