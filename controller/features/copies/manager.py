# SPDX-License-Identifier: Apache-2.0
"""The terminals that get copies in mode auto: evidence in, decisions out. policy/copies/adaptive.py decides for each.

reports ─┬─► senders ──► per terminal ──┐
         ├─► arrivals ─► per uplink ────┼─► a watch per terminal ──► CopyDecision ──► Decisions.copies
         └─► probes ───► per uplink ────┤
readings ──► tunnels ──► per uplink ────┤
ports, failover, silence ──► dead uplink┘
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from controller.agents.agent import Agent
from controller.agents.registry import AgentRegistry
from controller.features.copies.loss_evidence import CopyArrivals, Probes, TunnelCounters, of_reported
from controller.features.copies.metered_uplinks import Budgets
from controller.features.copies.packet_counts import Downloads, Traffic
from controller.features.peer_sites.manager import PeerSites
from controller.features.steering.manager import SteeringManager
from controller.features.steering.terminal import Steered
from controller.model.config import Mode, Site
from controller.model.decisions import Decisions
from controller.model.in_force import InForce
from controller.model.observed import Port
from controller.model.overrides import without
from controller.model.redundancy import COPIES, NONE, PacketUplinks
from controller.policy.copies import adaptive
from controller.policy.copies.adaptive import CopyDecision, Watch
from controller.policy.copies.tallies import Evidence
from controller.policy.paths.health import UplinkHealth
from controller.policy.paths.uplinks import way
from controller.program.program import Installed
from controller.protocol.reports import AgentClosed, AgentEvent, Reported, Role

UNHEARD_S = 10.0  # without reports, on one path: agents reconnect
UNREPORTED_S = 2.0  # unreported packets on one path: reports and readings are not simultaneous
MOST_COUNTED = 64  # terminals in mode auto; above this number switches are not read each second
RECENT_S = 10.0
QUIET_S = 10.0  # without a sent packet
LOOKS_APART_S = 0.1
SLOW_LOSS = 0.04
SLOW_S = 40.0  # median time until one probe per second shows SLOW_LOSS
COUNTED_S = 12.0  # median time until a tunnel's ends show it, at 50 packets per second
NO_EVIDENCE = "; but no measurement would exist for this path alone"


class CopiesManager:
    def __init__(
        self,
        agents: AgentRegistry,
        steering: SteeringManager,
        peer_sites: PeerSites,
        budgets: Budgets,
        in_force: InForce,
    ) -> None:
        self._agents, self._steering, self._peer_sites, self._budgets = agents, steering, peer_sites, budgets
        self._decided_of: dict[str, None] = {}  # terminals in mode auto, in order
        self._arrivals, self._probes = CopyArrivals(), Probes()
        self._downloads = Downloads()
        self._tunnels = TunnelCounters()
        self.traffic = Traffic()
        self._watches: dict[str, Watch] = {}  # by terminal
        self._probed_at: dict[tuple[str, str], float] = {}  # by home and uplink
        self._looked_at = float("-inf")
        # Home and uplink of fast unreported traffic that is not copied
        self.watched: frozenset[tuple[str, str]] = frozenset()
        self._unheard_since: dict[str, float] = {}  # by terminal on one path without evidence
        self._evidence_at: dict[str, dict[str, float]] = {}  # by terminal and agent
        self._sent_at: dict[str, float] = {}  # by terminal: its own agent's last report of packets
        self.keep(in_force)

    def watch(self, terminal: str) -> Watch | None:
        """Return the state of a terminal; None: no evidence came in mode auto."""
        return self._watches.get(terminal)

    def barred(self, steered: Steered, in_force: InForce) -> str | None:
        """Return why no uplink may carry copies, or None."""
        site = steered.site
        if in_force.may_copy(site, steered.terminal):
            return None
        whys = ((uplink.name, self._budgets.why(site.home, uplink.name)) for uplink in site.uplinks)
        return "; ".join(f"{name}: {why}" for name, why in whys if why is not None)

    def wants_often(self, session: int) -> bool:
        """Return whether this agent should report at the shortest interval.

        It should if a terminal that it speaks for sends over one path, or if it probes a path with unreported packets.
        Terminals with copies are not urgent, and terminals that do not send lose nothing.
        """
        ends, speaker = self._peer_sites.at(session), self._agents.speaker(session)
        if ends is not None and any(home == ends[0].home for home, _ in self.watched):
            return True
        return speaker is not None and speaker.sends and any(map(self._is_urgent, speaker.terminals))

    def _is_urgent(self, name: str) -> bool:
        """Return whether the terminal sends on one path, so that a loss must be noticed soon."""
        watch, sent_at = self._watches.get(name), self._sent_at.get(name, float("-inf"))
        return watch is not None and not watch.copies and self._looked_at - sent_at < QUIET_S

    def keep(self, in_force: InForce) -> Decisions:
        """Forget terminals that left mode auto."""
        here = self._steering.steered
        self.traffic.keep(here)
        self._decided_of = dict.fromkeys(name for name, each in here.items() if _has_choice(each, in_force))
        few = len(self._decided_of) <= MOST_COUNTED
        self._counted = frozenset(here[name].site.home for name in self._decided_of) if few else frozenset[str]()
        gone = {*in_force.decisions.copies, *self._watches} - self._decided_of.keys()
        if not gone:
            return in_force.decisions
        self._watches = without(self._watches, gone)
        self._sent_at = without(self._sent_at, gone)
        self._unheard_since = without(self._unheard_since, gone)
        self._evidence_at = without(self._evidence_at, gone)
        return replace(in_force.decisions, copies=without(in_force.decisions.copies, gone))

    def counts(self, site: Site) -> bool:
        """Return whether the site's switches must be read each second."""
        return site.home in self._counted

    # Evidence

    def on_event(self, event: AgentEvent, agent: Agent, in_force: InForce, now: float) -> Iterator[CopyDecision]:
        """Use every report, also several per second of one agent."""
        match event:
            case AgentClosed():
                self._probes.closed(event.session)
            case Reported() if self._decided_of:
                yield from self._measured(event, in_force, now)
                yield from self._sent(event, agent, in_force, now)

    def read(
        self,
        site: Site,
        ports: Mapping[str, Port],
        installed: Installed,
        asked_at: float,
        in_force: InForce,
        now: float,
    ) -> Iterator[CopyDecision]:
        self.traffic.read(site, installed, now)
        for uplink, evidence in self._tunnels.read(site, ports, installed, asked_at).items():
            here = [each for each in self._steering.steered.values() if each.site.home == site.home]
            for steered in here:
                if in_force.active_uplink(steered.site, steered.terminal) == uplink:
                    yield from self._on_evidence(steered, evidence, None, in_force, now)

    def slow_watch(self, steered: Steered, in_force: InForce, now: float) -> str | None:
        """Return why a loss on the active uplink shows late, or None."""
        home, uplink = steered.site.home, steered.site.uplink(in_force.active_uplink(steered.site, steered.terminal))
        probed_at = self._probed_at.get((home, uplink.name), float("-inf"))
        if not uplink.limits.budget or now - probed_at >= UNHEARD_S:
            return None
        if self._tunnels.counted(home, uplink.name, now):
            return (
                f"metered: {uplink.name} gets one probe a second, and its two ends count packets: a call's loss of "
                f"{SLOW_LOSS:.0%} shows after about {COUNTED_S:.0f} s"
            )
        return (
            f"metered: {uplink.name} gets only one probe a second, so a loss of {SLOW_LOSS:.0%} "
            f"each way shows after about {SLOW_S:.0f} s"
        )

    def _sent(self, event: Reported, agent: Agent, in_force: InForce, now: float) -> Iterator[CopyDecision]:
        speaker = self._agents.speaker(event.session)
        if speaker is None or (speaker.sends and not any(map(self.decides_of, speaker.terminals))):
            return
        found = of_reported(agent.flows, event, speaker.sends, speaker.homes, in_force)
        if speaker.sends:
            sent = {name: evidence.counts.packets for name, evidence in found.items()}
            self._downloads.on_report(agent.flows, speaker.homes, sent, now)
        for name, evidence in found.items():
            explained = self._downloads.explained(name) if speaker.sends else 0
            self.traffic.on_report(name, evidence.counts.packets, explained, now)
            if speaker.sends and evidence.counts.packets:
                self._sent_at[name] = now
            yield from self._on_evidence(self._steering.steered[name], evidence, event.session, in_force, now)

    def _measured(self, event: Reported, in_force: InForce, now: float) -> Iterator[CopyDecision]:
        sites = self._peer_sites.at(event.session)
        if sites is None:
            return
        here, there = sites
        lasted_s, home = event.interval_ms / 1000, here if here.peer_of is None else there
        found = list(self._probes.on_report(event, [uplink.name for uplink in home.uplinks]).items())
        self._probed_at |= {(home.name, uplink): now for uplink, _ in found}
        if event.elimination is not None:
            found += self._arrivals.on_report(here, there, event.elimination, lasted_s, in_force, now).items()
        for uplink, evidence in found:
            for steered in (self._steering.steered[terminal.name] for terminal in home.terminals):
                if in_force.active_uplink(home, steered.terminal) == uplink:
                    yield from self._on_evidence(steered, evidence, event.session, in_force, now)

    @property
    def next_at(self) -> float | None:
        """The time from which rest() has work, or None."""
        return self._looked_at + LOOKS_APART_S if self._watches and self._steering.paths_reported else None

    def rest(self, in_force: InForce, now: float) -> Iterator[CopyDecision]:
        """Look at paths at a limited rate: a port may flap a thousand times per second."""
        if self.next_at is not None and now >= self.next_at:
            yield from self.look(in_force, now)

    def look(self, in_force: InForce, now: float) -> Iterator[CopyDecision]:
        self._steering.paths_reported, self._looked_at = False, now
        self.watched = frozenset(self._watched(in_force, now))
        for steered in (self._steering.steered[name] for name in self._decided_of):
            watch = self._with_path_health(self._watch(steered, in_force, now), steered, now)
            unheard = self._unheard(steered, watch, in_force, now)
            decision = adaptive.unheard(steered.name, watch, unheard, now) if unheard is not None else None
            yield from self._decided(steered, watch, in_force, now, decision)

    def _watched(self, in_force: InForce, now: float) -> Iterator[tuple[str, str]]:
        for steered in (self._steering.steered[name] for name in self._decided_of):
            alone = in_force.redundancy(steered.site, steered.terminal) is NONE
            unreported = self.traffic.unreported(steered.name, now)
            if alone and unreported is not None and unreported.fast:
                yield steered.site.home, in_force.active_uplink(steered.site, steered.terminal)

    def _with_path_health(self, watch: Watch, steered: Steered, now: float) -> Watch:
        """Return the state after the health of the active uplink: dead, or alive again."""
        path = steered.paths[watch.active]
        if path.health is not UplinkHealth.DEAD:
            return adaptive.revived(watch)
        return adaptive.dead(watch, path.reason, now) if watch.dead is None else watch

    def _unheard(self, steered: Steered, watch: Watch, in_force: InForce, now: float) -> str | None:
        """Return why there is no evidence for the terminal, once this has lasted for some time."""
        unreported = None if watch.copies else self._no_evidence(steered, watch.active, in_force, now)
        if unreported is None:
            self._unheard_since.pop(steered.name, None)
            return None
        patience_s = UNREPORTED_S if self.traffic.unreported(steered.name, now) is not None else UNHEARD_S
        return unreported if now - self._unheard_since.setdefault(steered.name, now) >= patience_s else None

    def _no_evidence(self, steered: Steered, uplink: str, in_force: InForce, now: float) -> str | None:
        """Return why a loss on one path would stay unnoticed, or None."""
        senders = {Role.GATEWAY if steered.terminal.relayed else Role.TERMINAL}
        if steered.site.other_end is not None:
            senders.add(Role.RELAY)
        probed_at = self._probed_at.get((steered.site.home, uplink), float("-inf"))
        if now - probed_at < UNHEARD_S:
            return None
        alone = replace(in_force, decisions=replace(in_force.decisions, copies={steered.name: False}))
        if way(steered.site, steered.terminal, alone).over is not PacketUplinks.ACTIVE:
            return "some of its TCP is in another mode, and senders do not report which packets were lost"
        if not any(agent.role in senders for agent in steered.movers.values()):
            return f"no agent reports losses on {uplink}"
        if self._downloads.mostly(steered.name, now):
            return "it mostly receives, and senders do not report lost acknowledgements"
        unreported = self.traffic.unreported(steered.name, now)
        return unreported.reason if unreported is not None else None

    def _on_evidence(
        self, steered: Steered, evidence: Evidence, session: int | None, in_force: InForce, now: float
    ) -> Iterator[CopyDecision]:
        if steered.name not in self._decided_of or steered.moved_since(now - evidence.lasted_s):
            return  # after a move, part of the evidence is about another uplink
        agent = self._agents.of(session) if session is not None else None
        if agent is not None and (evidence.counts.packets or evidence.stalled_ms):
            self._evidence_at.setdefault(steered.name, {})[agent.name] = now
        watch = adaptive.after_evidence(self._watch(steered, in_force, now), evidence, now)
        yield from self._decided(steered, watch, in_force, now)

    def _watch(self, steered: Steered, in_force: InForce, now: float) -> Watch:
        active = in_force.active_uplink(steered.site, steered.terminal)
        known = self._watches.get(steered.name)
        if known is None and steered.name in in_force.decisions.copies:
            return Watch(
                active, now, in_force.decisions.copies[steered.name], "it was decided before the controller restarted"
            )
        if known is None:
            return Watch(active, now)
        return adaptive.moved(known, active, now)

    def bounded(self, before: InForce, after: InForce, now: float) -> Iterator[CopyDecision]:
        """Decide after a change of the uplinks that may carry copies."""
        for steered in self._steering.steered.values():
            may, why = after.may_copy(steered.site, steered.terminal), self.barred(steered, after)
            if before.may_copy(steered.site, steered.terminal) == may:
                continue
            if steered.name in self._decided_of:
                yield from self._decided(steered, self._watch(steered, after, now), after, now)
            elif after.overrides.mode(steered.terminal) is COPIES.mode:
                reason = why or "copies are allowed again: the budget of an uplink is no longer used up"
                yield CopyDecision(steered.name, may, reason, now, barred=not may)

    def _decided(
        self, steered: Steered, watch: Watch, in_force: InForce, now: float, decision: CopyDecision | None = None
    ) -> Iterator[CopyDecision]:
        name, barred = steered.name, self.barred(steered, in_force)
        if barred is not None or decision is None:
            decision = adaptive.decide(name, watch, now, barred)
        ends = decision is not None and not (decision.copies or decision.barred)
        if ends and self._no_evidence(steered, watch.active, in_force, now) is not None:
            decision, watch = None, replace(watch, reason=watch.reason.removesuffix(NO_EVIDENCE) + NO_EVIDENCE)
        self._watches[name] = watch if decision is None else adaptive.decided(watch, decision)
        if decision is not None:
            reporters = () if decision.barred else self._reporters(steered.name, now)
            yield replace(decision, reporters=reporters)

    def _reporters(self, terminal: str, now: float) -> tuple[str, ...]:
        lately = self._evidence_at.get(terminal, {}).items()
        return tuple(agent for agent, at in lately if now - at <= RECENT_S)

    def decides_of(self, name: str) -> bool:
        return name in self._decided_of


def _has_choice(steered: Steered, in_force: InForce) -> bool:
    terminal = steered.terminal
    if len(steered.site.uplinks) < 2:
        return False
    of_classes = (in_force.overrides.mode_of(terminal, each.name) is Mode.AUTO for each in steered.site.named)
    return in_force.overrides.mode(terminal) is Mode.AUTO or any(of_classes)
