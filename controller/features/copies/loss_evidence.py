# SPDX-License-Identifier: Apache-2.0
"""Evidence of loss: from senders, probes, the ends of tunnels, and the site where copies arrive."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from controller.model.config import Site, Terminal
from controller.model.in_force import InForce
from controller.model.observed import Port
from controller.model.redundancy import PacketUplinks
from controller.policy.copies import tunnel_loss
from controller.policy.copies.adaptive import MEASURED_S
from controller.policy.copies.tallies import Evidence, LossCounts, Source, of_copies, of_senders
from controller.policy.copies.tunnel_loss import History, TunnelReading
from controller.policy.paths.evidence import weigh
from controller.policy.paths.flows import ConnectionDelta
from controller.policy.paths.uplinks import AddressOwner, TerminalUplinks, way
from controller.program.program import Installed, PortCounters
from controller.protocol.reports import Elimination, PathCopies, PathHealth, Reported

# Senders: retransmissions between two reports of an agent. Those towards a terminal count only if the peer site copies
# too: a plain router returns packets by its own routes.


def of_reported(
    flows: Iterable[ConnectionDelta],
    event: Reported,
    at_terminal: bool,
    homes: Mapping[str, AddressOwner],
    in_force: InForce,
) -> dict[str, Evidence]:
    """Return the evidence by terminal.

    A terminal with only part of its packets copied has none: reports do not say which packet was lost.
    """
    active: dict[str, str] = {}  # by terminal with evidence
    ways: dict[str, TerminalUplinks] = {}

    def way_of(home: AddressOwner) -> TerminalUplinks:
        """Return the way, with all packets on the active uplink, copied or not."""
        name = home.terminal.name
        if name not in ways:
            found = way(home.site, home.terminal, in_force)
            if found.over in (PacketUplinks.ACTIVE, PacketUplinks.EVERY):
                active[name] = found.active
            ways[name] = replace(found, over=PacketUplinks.ACTIVE)
        return ways[name]

    home_of = homes.get if at_terminal else _mirrored(homes.get)
    weighed = weigh(flows, event.interval_ms, at_terminal, home_of, way_of, event.confirmed)
    lasted_s = event.interval_ms / 1000
    return {
        terminal: of_senders(reading, weighed.late[terminal, uplink], lasted_s)
        for (terminal, uplink), reading in weighed.readings.items()
        if active.get(terminal) == uplink
    }


def _mirrored(home_of: Callable[[str], AddressOwner | None]) -> Callable[[str], AddressOwner | None]:
    """Packets to a terminal take the same uplinks as its own, independent of the subnet."""

    def found(address: str) -> AddressOwner | None:
        home = home_of(address)
        return replace(home, uplink=None) if home is not None and home.site.other_end is not None else None

    return found


# Probes: small packets between two reports


class Probes:
    def __init__(self) -> None:
        self._before: dict[tuple[int, str], PathHealth] = {}  # by session and uplink

    def closed(self, session: int) -> None:
        self._before = {at: path for at, path in self._before.items() if at[0] != session}

    def on_report(self, event: Reported, uplinks: Collection[str]) -> dict[str, Evidence]:
        """Return the evidence by configured uplink. The direction of a loss does not matter: copies go both ways.

        If no probe returns on any of several uplinks, the responder is away, and this says nothing about the uplinks.
        """
        found = {}
        for path in (each for each in event.health if each.name in uplinks):
            before, self._before[event.session, path.name] = self._before.get((event.session, path.name)), path
            if before is None or path.reason or path.sent < before.sent:
                continue  # no probes, or the counters restarted
            sent, lost, late = path.sent - before.sent, path.lost - before.lost, path.late - before.late
            if 0 <= lost <= sent and 0 <= late <= sent:
                found[path.name] = Evidence(Source.PROBES, event.interval_ms / 1000, LossCounts(sent, lost, late))
        sent_by = [each.counts for each in found.values() if each.counts.packets]
        return {} if len(sent_by) > 1 and all(counts.lost == counts.packets for counts in sent_by) else found


# Tunnels: packets that one end's port sent and the other did not receive. Metered uplinks have few probes. An Ethernet
# port also counts packets of others.

PAIRED_S = 0.5  # switches that are read each second are read in the same tick


@dataclass(frozen=True, slots=True)
class PortsReading:
    """The ports of one end's tunnels."""

    asked_at: float
    counters: Mapping[str, PortCounters]  # by uplink
    metered: frozenset[str]  # uplinks with a budget; only the home site knows them


class TunnelCounters:
    def __init__(self) -> None:
        self._latest: dict[tuple[str, bool], PortsReading] = {}  # by home, and whether the reading is from home
        self._histories: dict[tuple[str, str, bool], History] = {}  # by home, uplink, and whether from home

    def counted(self, home: str, uplink: str, now: float) -> bool:
        """Return whether both ends of this tunnel are read often."""
        history = self._histories.get((home, uplink, True), ())
        return len(history) > 1 and now - history[-2].at <= MEASURED_S

    def read(self, site: Site, ports: Mapping[str, Port], installed: Installed, asked_at: float) -> dict[str, Evidence]:
        """Return evidence by uplink, from the direction with the higher loss."""
        at_home = site.peer_of is None
        before, other = self._latest.get((site.home, at_home)), self._latest.get((site.home, not at_home))
        if before is not None and asked_at <= before.asked_at:
            return {}
        this = self._latest[site.home, at_home] = _ports_reading(site, ports, installed, asked_at)
        if other is None or abs(this.asked_at - other.asked_at) > PAIRED_S:
            return {}
        near, far = (this, other) if at_home else (other, this)
        found: dict[str, Evidence] = {}
        for name in sorted(near.metered & near.counters.keys() & far.counters.keys()):
            for up, (sender, receiver) in ((True, (near, far)), (False, (far, near))):
                evidence = self._compared((site.home, name, up), sender, receiver)
                if evidence is not None and (name not in found or evidence.counts.loss > found[name].counts.loss):
                    found[name] = evidence
        return found

    def _compared(
        self, direction: tuple[str, str, bool], sender: PortsReading, receiver: PortsReading
    ) -> Evidence | None:
        _, uplink, _ = direction
        sent, received = sender.counters[uplink].sent, receiver.counters[uplink].received
        reading = TunnelReading(max(sender.asked_at, receiver.asked_at), sent, received)
        history = tunnel_loss.extended(self._histories.get(direction, ()), reading)
        evidence = tunnel_loss.certain_loss(history)
        self._histories[direction] = history if evidence is None else history[-1:]  # each lost packet counts once
        return evidence


def _ports_reading(site: Site, ports: Mapping[str, Port], installed: Installed, asked_at: float) -> PortsReading:
    tunnels = [each for each in site.uplinks if each.tunnel is not None and each.port in ports]
    numbers = {each.name: ports[each.port].number for each in tunnels}
    counters = {
        name: installed.port_counters[number] for name, number in numbers.items() if number in installed.port_counters
    }
    metered = frozenset(each.name for each in tunnels if each.limits.budget)
    return PortsReading(asked_at, counters, metered)


# Arrivals: a packet that only another uplink delivered was lost on the active one, unless the other uplink also carries
# packets without copies

SETTLED_S = 0.5  # after a change of modes: switches follow, and packets in flight arrive

Riding = frozenset[tuple[str, frozenset[PacketUplinks], str]]  # per terminal: name, uplinks of its packets, active one


@dataclass(frozen=True, slots=True)
class ArrivalReport:
    paths: Mapping[str, PathCopies]
    riding: Riding
    since: float  # `riding` is unchanged since then


class CopyArrivals:
    def __init__(self) -> None:
        self._last_reports: dict[str, ArrivalReport] = {}  # by site

    def on_report(
        self, here: Site, there: Site, report: Elimination, lasted_s: float, in_force: InForce, now: float
    ) -> dict[str, Evidence]:
        """Return the evidence by active uplink."""
        home = here if here.peer_of is None else there  # a mode is for both directions
        riding = frozenset(_riding_of(home, each, in_force) for each in home.terminals)
        before = self._last_reports.get(here.name)
        same = before is not None and before.riding == riding
        after = ArrivalReport(
            {path.name: path for path in report.paths}, riding, before.since if before and same else now
        )
        self._last_reports[here.name] = after
        if (
            before is None
            or not same
            or now - lasted_s - before.since < SETTLED_S
            or here.name not in in_force.decisions.eliminating
        ):
            return {}
        alone = frozenset(_alone(riding, there))
        found = {}
        without = in_force.decisions.barred.get(
            home.name, frozenset()
        )  # these uplinks carry no copies of packets on other uplinks
        for uplink in {active for _, _, active in riding if alone <= {active}} - without:
            evidence = of_copies(uplink, before.paths, after.paths, lasted_s)
            if evidence is not None:
                found[uplink] = evidence
        return found


def _riding_of(home: Site, terminal: Terminal, in_force: InForce) -> tuple[str, frozenset[PacketUplinks], str]:
    over = frozenset(its.sent_over for its in in_force.of_classes(home, terminal, home.named))
    return terminal.name, over, in_force.active_uplink(home, terminal)


def _alone(riding: Riding, there: Site) -> Iterator[str]:
    """Yield the uplinks that deliver packets without copies."""
    for _, over, active in riding:
        if PacketUplinks.OWN in over:
            yield from (uplink.name for uplink in there.uplinks)
        if PacketUplinks.ACTIVE in over or there.bicast_once.protocols:
            yield active
