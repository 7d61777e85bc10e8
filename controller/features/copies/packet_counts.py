# SPDX-License-Identifier: Apache-2.0
"""The traffic of terminals: packets by the switches' counters, and the terminals that mostly download."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile

from controller.model.config import Site
from controller.model.overrides import without
from controller.policy.paths.flows import ConnectionDelta
from controller.policy.paths.uplinks import AddressOwner, uses_no_uplink
from controller.program.program import FlowKey, Group, GroupKind, Installed, ToGroup
from controller.program.readback import LeavingGroup, leaving_ways

# The loss of acknowledgements slows a download, and no sender reports it

DOWNLOADS_OVER_S = 10.0
LITTLE_BYTES = 500_000  # in DOWNLOADS_OVER_S; the rate of fewer bytes does not matter
SEGMENT_BYTES = 1400
PART = 0.1  # of the received bytes: a terminal that sends this share notices losses itself


class Downloads:
    def __init__(self) -> None:
        self._of_late: dict[str, deque[tuple[float, int, int]]] = {}  # by terminal: time, bytes received, segments sent

    def on_report(
        self,
        connections: Iterable[ConnectionDelta],
        homes: Mapping[str, AddressOwner],
        sent: Mapping[str, int],
        now: float,
    ) -> None:
        """`sent` holds reported data segments by terminal."""
        came = dict.fromkeys(sent, 0)
        for flow in (each for connection in connections for each in connection.flows):
            home = homes.get(flow.subflow.local_address)
            if home is not None and not uses_no_uplink(home, flow.subflow.remote_address):
                came[home.terminal.name] = came.get(home.terminal.name, 0) + flow.received_bytes
        for name, received in came.items():
            of_late = self._of_late.setdefault(name, deque())
            of_late.append((now, received, sent.get(name, 0)))
            while not 0 <= now - of_late[0][0] <= DOWNLOADS_OVER_S:
                of_late.popleft()

    def explained(self, terminal: str) -> int:
        """Return the data and acknowledgement packets of the last report."""
        of_late = self._of_late.get(terminal)
        if not of_late:
            return 0
        _, received, sent = of_late[-1]
        return sent + received // SEGMENT_BYTES

    def mostly(self, terminal: str, now: float) -> bool:
        of_late = [each for each in self._of_late.get(terminal, ()) if 0 <= now - each[0] <= DOWNLOADS_OVER_S]
        received = sum(bytes_ for _, bytes_, _ in of_late)
        sent = sum(segments for _, _, segments in of_late)
        return received > LITTLE_BYTES and sent * SEGMENT_BYTES < PART * received


SHOWN_OVER_S = 60.0  # the interval shown to people
JUDGED_S = 3.0  # shortest interval to judge: a report and a reading are a second apart, or more
SLOW_JUDGED_S = 20.0  # longest interval to wait for UNREPORTED_PACKETS: a game may send 2 per second
KEPT_FOR_S = 40.0  # agents' reports: two readings of a large site
READ_WITHIN_S = 60.0  # between readings; over longer intervals the time of packets is unknown
UNREPORTED_PACKETS = 30  # in SLOW_JUDGED_S: fewer are name service and keepalives
FAST_PER_S = 10.0  # packets per second: ten probes per second show a loss before a slower sender loses two packets


@dataclass(frozen=True, slots=True)
class Passed:
    """Packets of one class, in one direction."""

    traffic: str  # the name of the class
    sent: bool  # by the terminal; False: to it
    copied: int  # over several uplinks
    alone: int  # over one uplink


@dataclass(frozen=True, slots=True)
class TrafficStep:
    """The packets between two readings."""

    begun_at: float
    at: float
    passed: tuple[Passed, ...]

    @property
    def sent(self) -> int:
        return sum(each.copied + each.alone for each in self.passed if each.sent)


@dataclass(frozen=True, slots=True)
class TrafficReport:
    """The packet counts of one report about a terminal."""

    at: float
    evidence: int  # packets that the report covers: it would show their loss
    explained: int  # packets from the terminal that the report accounts for


@dataclass(frozen=True, slots=True)
class UnreportedPackets:
    """Packets of a terminal that no agent reports."""

    packets: int
    sent: int  # all packets that the terminal sent within `over_s`
    over_s: float

    @property
    def fast(self) -> bool:
        return self.packets >= FAST_PER_S * self.over_s

    @property
    def reason(self) -> str:
        sent = f"{self.packets} of the {self.sent} packets that it sent in {self.over_s:.0f} s"
        return f"no agent reports {sent} (calls or games, for example)"


@dataclass(slots=True)
class _Terminal:
    steps: deque[TrafficStep] = field(default_factory=deque)
    reports: deque[TrafficReport] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class FlowCounts:
    """The packet counters of one switch's flows to groups, at one reading."""

    at: float
    packets: Mapping[FlowKey, int]
    foreign: frozenset[FlowKey]  # the counter of such a flow stays when the flow becomes ours


class Traffic:
    def __init__(self) -> None:
        self._terminals: dict[str, _Terminal] = {}
        self._before: dict[int, FlowCounts] = {}  # by dpid

    def keep(self, terminals: Collection[str]) -> None:
        self._terminals = without(self._terminals, self._terminals.keys() - set(terminals))

    def read(self, site: Site, installed: Installed, now: float) -> None:
        groups = _groups(installed)
        packets = {key: installed.flow_counters[key].packets for key in groups}
        before = self._before.get(site.dpid)
        self._before[site.dpid] = FlowCounts(now, packets, installed.foreign_flows)
        if before is None or not 0 < now - before.at <= READ_WITHIN_S:
            return
        counted: dict[int, int] = {}  # by group
        for key, group_id in groups.items():
            counted[group_id] = counted.get(group_id, 0) + _new_packets(before, key, packets[key])
        found: dict[str, list[Passed]] = {}
        for group_id, way in leaving_ways(site).items():
            group = installed.program.groups.get(group_id)
            found.setdefault(way.terminal, []).append(_passed(way, group, counted.get(group_id, 0)))
        for terminal, passed in found.items():
            steps = self._terminals.setdefault(terminal, _Terminal()).steps
            steps.append(TrafficStep(before.at, now, tuple(passed)))
            while not now - steps[0].at < SHOWN_OVER_S:
                steps.popleft()

    def on_report(self, terminal: str, evidence: int, explained: int, now: float) -> None:
        reports = self._terminals.setdefault(terminal, _Terminal()).reports
        reports.append(TrafficReport(now, evidence, explained))
        while not now - reports[0].at < KEPT_FOR_S:
            reports.popleft()

    def passed(self, terminal: str, now: float) -> tuple[float, tuple[Passed, ...]]:
        """Return the covered seconds and the packets of the last minute."""
        steps = [each for each in self._of(terminal).steps if 0 <= now - each.at < SHOWN_OVER_S]
        sums: dict[tuple[str, bool], Passed] = {}
        for each in (passed for step in steps for passed in step.passed):
            before = sums.get((each.traffic, each.sent), Passed(each.traffic, each.sent, 0, 0))
            copied, alone = before.copied + each.copied, before.alone + each.alone
            sums[each.traffic, each.sent] = Passed(each.traffic, each.sent, copied, alone)
        since = min((step.begun_at for step in steps), default=now)
        return min(now - since, SHOWN_OVER_S), tuple(sums.values())

    def unreported(self, terminal: str, now: float) -> UnreportedPackets | None:
        """Return the packets of this terminal that no agent reports.

        None: agents report at least as many other packets, or the terminal sends almost nothing.
        """
        known = self._of(terminal)
        newest = known.steps[-1].at if known.steps else now
        if now - newest > READ_WITHIN_S:
            return None
        reports = deque(known.reports)
        sent = explained = evidence = 0
        over_s = 0.0
        for step in takewhile(lambda step: newest - step.at < SLOW_JUDGED_S, reversed(known.steps)):
            sent, over_s = sent + step.sent, newest - step.begun_at
            while reports and reports[-1].at > step.begun_at:
                report = reports.pop()
                explained, evidence = explained + report.explained, evidence + report.evidence
            if over_s >= JUDGED_S and sent - explained >= UNREPORTED_PACKETS:
                break
        rest = sent - explained
        return UnreportedPackets(rest, sent, over_s) if rest >= max(UNREPORTED_PACKETS, evidence + 1) else None

    def _of(self, terminal: str) -> _Terminal:
        return self._terminals.get(terminal, _Terminal())


def _passed(way: LeavingGroup, group: Group | None, packets: int) -> Passed:
    copied = group is not None and group.kind is GroupKind.ALL and len(group.buckets) > 1
    return Passed(way.traffic, way.sent, packets if copied else 0, 0 if copied else packets)


def _groups(installed: Installed) -> dict[FlowKey, int]:
    """Return the group of each flow. No flow leads to two."""
    return {
        key: action.group_id
        for key in installed.flow_counters
        if (flow := installed.program.flows.get(key))
        for action in flow.actions
        if isinstance(action, ToGroup)
    }


def _new_packets(before: FlowCounts, key: FlowKey, packets: int) -> int:
    """Return the packets of a flow since the previous reading.

    A flow keeps its counter when it changes groups, so packets are counted by flow. A counter that is new or fell has
    restarted at zero since then.
    """
    if key in before.foreign:
        return 0
    was = before.packets.get(key, 0)
    return packets - was if packets >= was else packets
