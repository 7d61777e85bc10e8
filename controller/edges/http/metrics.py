# SPDX-License-Identifier: Apache-2.0
"""The metrics of a Snapshot for Prometheus: gateways, uplinks, terminals, relays and paths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from controller.features.caps.view import AccessPointView
from controller.features.probing.view import PathView
from controller.features.relays.view import InterceptionView, RelayView
from controller.model.config import Mode
from controller.program.program import Counters
from controller.readout.snapshot import AgentState, AgentView, GatewayView, Snapshot
from controller.switches.switch import GatewayState

# Relays

RelayFamily = CounterMetricFamily | GaugeMetricFamily
Told = Sequence[tuple[list[str], object]]  # with labels


@dataclass(frozen=True, slots=True)
class RelayMetric:
    """One metric of a relay that an agent reports."""

    of: str  # the attribute
    name: str
    help: str
    counts: bool = True  # it only grows
    unit: float = 1.0

    def family(self, labels: list[str]) -> RelayFamily:
        kind = CounterMetricFamily if self.counts else GaugeMetricFamily
        return kind(self.name, self.help, labels=labels)


OF_A_RELAY = (
    RelayMetric("connections", "bicast_relay_connections", "What the relay carries now", counts=False),
    RelayMetric("waiting", "bicast_relay_waiting", "Connections of gateways where nothing was asked yet", counts=False),
    RelayMetric("carried", "bicast_relay_carried", "Connections that it has carried"),
    RelayMetric("refused", "bicast_relay_refused", "Requests that it has refused"),
    RelayMetric("failed", "bicast_relay_failed", "Requests for destinations that did not answer"),
    RelayMetric("strangers", "bicast_relay_unauthenticated", "Who showed it no certificate that counts"),
    RelayMetric("bytes_up", "bicast_relay_bytes_up", "Bytes to servers"),
    RelayMetric("bytes_down", "bicast_relay_bytes_down", "Bytes from servers"),
    RelayMetric("overhead_us", "bicast_relay_overhead_seconds", "How long it holds bytes back", counts=False, unit=1e6),
    RelayMetric("busy_percent", "bicast_relay_busy_ratio", "Of its least idle processor", counts=False, unit=100),
)
OF_A_TERMINAL = (
    RelayMetric("connections", "bicast_intercepted_connections", "The terminal's, that are taken now", counts=False),
    RelayMetric("relayed", "bicast_intercepted_relayed", "Its connections that went by a relay"),
    RelayMetric("direct", "bicast_intercepted_direct", "Its connections that went directly"),
    RelayMetric("reset", "bicast_intercepted_reset", "Its connections that were reset, as no relay was reached"),
    RelayMetric("bytes_up", "bicast_intercepted_bytes_up", "Bytes from the terminal"),
    RelayMetric("bytes_down", "bicast_intercepted_bytes_down", "Bytes to it"),
)


def of_relays(relays: tuple[RelayView, ...], taking: tuple[InterceptionView, ...]) -> Iterator[RelayFamily]:
    up = GaugeMetricFamily("bicast_relay_up", "1 while the relay stands", labels=["relay"])
    draining = GaugeMetricFamily("bicast_relay_draining", "1 while it takes nothing new", labels=["relay"])
    reached = GaugeMetricFamily("bicast_relay_reached", "1 while the gateway reaches it", labels=["gateway", "relay"])
    set_up = GaugeMetricFamily(
        "bicast_relay_setup_seconds", "TCP and TLS of the last connection to it", labels=["gateway", "relay"]
    )
    takes = GaugeMetricFamily(
        "bicast_intercepting", "1 while terminals' TCP is taken there as it is to be", labels=["gateway"]
    )
    for one in relays:
        up.add_metric([one.name], float(one.why_not is None))
        draining.add_metric([one.name], float(one.draining))
        for each in one.reached:
            reached.add_metric([each.gateway, one.name], float(each.reason is None))
            if each.setup_ms is not None:
                set_up.add_metric([each.gateway, one.name], each.setup_ms / 1e3)
    for site in taking:
        takes.add_metric([site.gateway], float(site.why_not is None))
    yield from (up, draining, reached, set_up, takes)
    yield from _families(OF_A_RELAY, ["relay"], [([one.name], one.told) for one in relays if one.told is not None])
    terminals = [([site.gateway, each.name], each) for site in taking for each in site.terminals]
    yield from _families(OF_A_TERMINAL, ["gateway", "terminal"], terminals)


def _families(
    figures: tuple[RelayMetric, ...], labels: list[str], told: Sequence[tuple[list[str], object]]
) -> Iterator[RelayFamily]:
    for figure in figures:
        family = figure.family(labels)
        for at, one in told:
            family.add_metric(at, getattr(one, figure.of) / figure.unit)
        yield family


# Paths between sites

PATH, WAY = ["gateway", "uplink"], ["gateway", "uplink", "direction"]


def of_roads(paths: tuple[PathView, ...]) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    measured = GaugeMetricFamily("bicast_path_measured", "1 while both ends' agents measure it", labels=PATH)
    packets = CounterMetricFamily("bicast_path_packets", "Small packets since both ends last met", labels=PATH)
    lost = CounterMetricFamily("bicast_path_lost", "Of these, those that were not answered", labels=PATH)
    rtt = GaugeMetricFamily(
        "bicast_path_rtt_seconds", "Median round trip of small packets, of the longest window", labels=PATH
    )
    figures: dict[str, GaugeMetricFamily] = {
        "bps": GaugeMetricFamily("bicast_path_bandwidth_bps", "What is to be had", labels=WAY),
        "least_bps": GaugeMetricFamily("bicast_path_bandwidth_least_bps", "The interval's lower end", labels=WAY),
        "most_bps": GaugeMetricFamily("bicast_path_bandwidth_most_bps", "The interval's upper end", labels=WAY),
        "age_s": GaugeMetricFamily("bicast_path_bandwidth_age_seconds", "Since it was measured", labels=WAY),
    }
    for path in paths:
        at = [path.site, path.uplink]
        measured.add_metric(at, float(path.why_not is None))
        if path.health is not None:
            packets.add_metric(at, path.health.sent)
            lost.add_metric(at, path.health.lost)
            longest = max(path.health.windows, key=lambda one: one.seconds, default=None)
            if longest is not None and longest.rtt_median_us:
                rtt.add_metric(at, longest.rtt_median_us / 1e6)
        for way in path.directions:
            for name, family in figures.items():
                if (value := getattr(way, name)) is not None:
                    family.add_metric([*at, way.direction], value)
    yield from (measured, packets, lost, rtt)
    yield from figures.values()


Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily

VERDICTS = ("first", "eliminated", "late", "rogue", "evicted", "unidentified", "not_forwarded")  # of PathCopies


def registry_of(reader: Callable[[], Snapshot]) -> CollectorRegistry:
    """Return a separate registry: it takes one snapshot per scrape and has no process metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_SnapshotCollector(reader))
    return registry


class _SnapshotCollector(Collector):
    def __init__(self, reader: Callable[[], Snapshot]) -> None:
        self._reader = reader

    def collect(self) -> Iterator[Family]:
        snapshot = self._reader()
        yield from _configuration(snapshot)
        yield from _gateways(snapshot.gateways)
        yield from _uplinks(snapshot.gateways)
        yield from _copies(snapshot.gateways)
        yield from _copied(snapshot)
        yield from _tunnels(snapshot.gateways)
        yield from _buckets(snapshot.gateways)
        yield from _terminals(snapshot)
        yield from _agents(snapshot.agents)
        yield from _access_points(snapshot.access_points)
        yield from of_roads(snapshot.paths)
        yield from of_relays(snapshot.relays, snapshot.taking)


def _configuration(snapshot: Snapshot) -> Iterator[Family]:
    yield CounterMetricFamily(
        "bicast_configuration_failures",
        "Configurations that were refused while an older one stayed in force",
        value=snapshot.config_failures,
    )
    yield GaugeMetricFamily(
        "bicast_configuration_loaded_timestamp_seconds",
        "When the configuration in force was loaded",
        value=snapshot.config_loaded_at,
    )


def _gateways(gateways: tuple[GatewayView, ...]) -> Iterator[Family]:
    state = GaugeMetricFamily(
        "bicast_gateway_state", "1 for the state the switch is in, 0 for the others", labels=["gateway", "state"]
    )
    reconciles = CounterMetricFamily(
        "bicast_gateway_reconciles",
        "Times the program that is wanted was compared with the one that the switch holds",
        labels=["gateway"],
    )
    changes = CounterMetricFamily(
        "bicast_gateway_changes_sent", "Flow, group and meter modifications sent", labels=["gateway"]
    )
    refusals = CounterMetricFamily("bicast_gateway_refusals", "Modifications the switch refused", labels=["gateway"])
    conflicts = GaugeMetricFamily(
        "bicast_gateway_conflicts", "Foreign flows that stand where ours would", labels=["gateway"]
    )
    for gateway in gateways:
        for one in GatewayState:
            state.add_metric([gateway.name, one], float(gateway.state is one))
        reconciles.add_metric([gateway.name], gateway.reconciles)
        changes.add_metric([gateway.name], gateway.changes_sent)
        refusals.add_metric([gateway.name], gateway.refusals)
        conflicts.add_metric([gateway.name], len(gateway.conflicts))
    yield from (state, reconciles, changes, refusals, conflicts)


def _uplinks(gateways: tuple[GatewayView, ...]) -> Iterator[Family]:
    labels = ["gateway", "uplink"]
    up = GaugeMetricFamily("bicast_uplink_up", "1 when the uplink's port is there and up", labels=labels)
    traffic = _Traffic("bicast_uplink", "the uplink's port", [*labels, "direction"])
    drops = CounterMetricFamily(
        "bicast_uplink_dropped_packets", "Packets the uplink's port dropped", labels=[*labels, "direction"]
    )
    for gateway in gateways:
        for uplink in gateway.uplinks:
            up.add_metric([gateway.name, uplink.name], float(uplink.up))
            if uplink.counters is not None:
                traffic.add([gateway.name, uplink.name, "up"], uplink.counters.sent)
                traffic.add([gateway.name, uplink.name, "down"], uplink.counters.received)
                drops.add_metric([gateway.name, uplink.name, "up"], uplink.counters.send_drops)
                drops.add_metric([gateway.name, uplink.name, "down"], uplink.counters.receive_drops)
    yield from (up, *traffic.families, drops)


def _tunnels(gateways: tuple[GatewayView, ...]) -> Iterator[Family]:
    labels = ["gateway", "uplink"]
    up = GaugeMetricFamily("bicast_tunnel_up", "1 while the other end of the uplink's tunnel is heard", labels=labels)
    rtt = GaugeMetricFamily("bicast_tunnel_rtt_seconds", "Of the last question that was answered", labels=labels)
    mtu = GaugeMetricFamily("bicast_tunnel_mtu_bytes", "The longest IP packet that goes through", labels=labels)
    moves = CounterMetricFamily("bicast_tunnel_moves", "Times the other end's outer address changed", labels=labels)
    strangers = CounterMetricFamily(
        "bicast_tunnel_unauthenticated", "Packets from somebody else, dropped", labels=labels
    )
    for at, tunnel in (([one.name, each.name], each.tunnel) for one in gateways for each in one.uplinks if each.tunnel):
        up.add_metric(at, float(tunnel.up))
        end = tunnel.end
        if end is not None:
            rtt.add_metric(at, end.rtt_us / 1e6)
            mtu.add_metric(at, end.mtu_bytes)
            moves.add_metric(at, end.moves)
            strangers.add_metric(at, end.strangers)
    yield from (up, rtt, mtu, moves, strangers)


def _copies(gateways: tuple[GatewayView, ...]) -> Iterator[Family]:
    """Yield the metrics of received copies: packets by uplink and verdict, silent uplinks and skew."""
    eliminates = GaugeMetricFamily(
        "bicast_copies_eliminated", "1 where one copy of each packet passes", labels=["gateway"]
    )
    window = GaugeMetricFamily(
        "bicast_copies_window_seconds", "How long after the first a copy is known as one", labels=["gateway"]
    )
    packets = CounterMetricFamily(
        "bicast_copies_packets", "Packets by uplink and what became of them", labels=["gateway", "uplink", "verdict"]
    )
    silent = GaugeMetricFamily(
        "bicast_copies_silent", "1 where an uplink brings no copies while others do", labels=["gateway", "uplink"]
    )
    skew = HistogramMetricFamily(
        "bicast_copies_skew_seconds", "How long after the first copy another one came", labels=["gateway", "uplink"]
    )
    for name, copies in ((gateway.name, gateway.copies) for gateway in gateways if gateway.copies is not None):
        eliminates.add_metric([name], float(copies.eliminated))
        if copies.window_us is not None:
            window.add_metric([name], copies.window_us / 1e6)
        for path in copies.paths:
            for verdict in VERDICTS:
                packets.add_metric([name, path.name, verdict], getattr(path, verdict))
            skew.add_metric([name, path.name], *_histogram(path.skew))
            silent.add_metric([name, path.name], float(path.name in {each.uplink for each in copies.silent}))
    yield from (eliminates, window, packets, silent, skew)


def _copied(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the terminals whose packets are copied, and what copies have used of uplinks with budgets."""
    had = GaugeMetricFamily(
        "bicast_copies_had", "1 while the terminal's packets are copied", labels=["gateway", "terminal", "mode"]
    )
    labels = ["gateway", "uplink"]
    used = GaugeMetricFamily("bicast_copies_used_bytes", "What copies have used of the uplink today", labels=labels)
    barred = GaugeMetricFamily("bicast_copies_barred", "1 while the uplink may carry no more of them", labels=labels)
    for terminal in snapshot.terminals:
        had.add_metric([terminal.gateway, terminal.name, terminal.mode], float(terminal.acting is Mode.BICAST))
    for gateway in snapshot.gateways:
        for name, budget in ((each.name, each.budget) for each in gateway.uplinks if each.budget is not None):
            used.add_metric([gateway.name, name], budget.copied_bytes)
            barred.add_metric([gateway.name, name], float(budget.barred is not None))
    yield from (had, used, barred)


def _histogram(steps: tuple[int, ...]) -> tuple[list[tuple[str, float]], None]:
    """Return cumulative Prometheus buckets, in seconds, of counts by powers of two in nanoseconds."""
    sums = list(accumulate(steps))
    bounds = [(str(2 ** (step + 1) / 1e9), float(so_far)) for step, so_far in enumerate(sums)]
    return [*bounds, ("+Inf", float(sums[-1] if sums else 0))], None


def _buckets(gateways: tuple[GatewayView, ...]) -> Iterator[Family]:
    """Yield counters of buckets towards uplinks. `_terminals` counts packets to terminals."""
    traffic = _Traffic("bicast_bucket", "a group's bucket", ["gateway", "group", "uplink"])
    for gateway in gateways:
        sums: dict[tuple[str, str], Counters] = defaultdict(lambda: Counters(0, 0))
        for group in gateway.groups:
            for bucket in group.buckets:
                if bucket.uplink is not None and bucket.counters is not None:
                    place = (group.label, bucket.uplink)
                    before = sums[place]
                    sums[place] = Counters(
                        before.packets + bucket.counters.packets, before.bytes + bucket.counters.bytes
                    )
        for (group_label, uplink), counters in sums.items():
            traffic.add([gateway.name, group_label, uplink], counters)
    yield from traffic.families


def _terminals(snapshot: Snapshot) -> Iterator[Family]:
    traffic = _Traffic("bicast_terminal", "the terminal", ["gateway", "terminal", "direction"])
    for terminal in snapshot.terminals:
        for direction, counters in (("up", terminal.sent), ("down", terminal.received)):
            if counters is not None:
                traffic.add([terminal.gateway, terminal.name, direction], counters)
    yield from traffic.families


def _agents(agents: tuple[AgentView, ...]) -> Iterator[Family]:
    """Yield metrics by agent. Labels come from issued certificates, so their number is bounded."""
    state = GaugeMetricFamily(
        "bicast_agent_state", "1 for the state the agent is in, 0 for the others", labels=["agent", "state"]
    )
    reported = GaugeMetricFamily(
        "bicast_agent_reported_timestamp_seconds", "When the agent's last report came", labels=["agent"]
    )
    reports = CounterMetricFamily("bicast_agent_reports", "Reports that the agent has sent", labels=["agent"])
    missing = GaugeMetricFamily("bicast_agent_missing", "What the agent cannot do on its host", labels=["agent"])
    cpu = CounterMetricFamily("bicast_agent_cpu_seconds", "What the agent itself costs its host", labels=["agent"])
    memory = GaugeMetricFamily("bicast_agent_resident_bytes", "The agent's own memory", labels=["agent"])
    for agent in agents:
        for one in AgentState:
            state.add_metric([agent.name, one], float(agent.state is one))
        reports.add_metric([agent.name], agent.reports)
        missing.add_metric([agent.name], len(agent.missing))
        if agent.reported_at is not None:
            reported.add_metric([agent.name], agent.reported_at)
        if agent.cpu_us is not None and agent.rss_bytes is not None:
            cpu.add_metric([agent.name], agent.cpu_us / 1e6)
            memory.add_metric([agent.name], agent.rss_bytes)
    yield from (state, reported, reports, missing, cpu, memory)


def _access_points(access_points: tuple[AccessPointView, ...]) -> Iterator[Family]:
    labels = ["gateway", "access_point", "terminal"]
    sharers = GaugeMetricFamily(
        "bicast_access_point_sharers", "Terminals that share it now", labels=["gateway", "access_point"]
    )
    bandwidth = GaugeMetricFamily(
        "bicast_access_point_bandwidth_bps", "What `ideal` divides there", labels=["gateway", "access_point"]
    )
    released = GaugeMetricFamily(
        "bicast_access_point_released",
        "1 while caps are released there: somebody sends whom nobody holds",
        labels=["gateway", "access_point"],
    )
    active = GaugeMetricFamily("bicast_cap_active", "1 while the terminal sends", labels=labels)
    most = GaugeMetricFamily(
        "bicast_cap_most_segments", "What all of the terminal's connections may have on their way", labels=labels
    )
    least = GaugeMetricFamily(
        "bicast_cap_least_segments", "What they are given even where some are lost; 0: nothing", labels=labels
    )
    held = GaugeMetricFamily("bicast_cap_held", "1 where somebody holds the terminal to its cap", labels=labels)
    ratio = GaugeMetricFamily("bicast_cap_rtt_ratio", "Round trips, by the shortest of them", labels=labels)
    doubts = CounterMetricFamily(
        "bicast_cap_doubts", "What was reported of the terminal and not believed", labels=labels
    )
    for one in access_points:
        sharers.add_metric([one.gateway, one.name], one.active)
        released.add_metric([one.gateway, one.name], float(one.released is not None))
        if one.bandwidth_bps is not None:
            bandwidth.add_metric([one.gateway, one.name], one.bandwidth_bps)
        for each in one.terminals:
            at = [one.gateway, one.name, each.terminal]
            active.add_metric(at, float(each.active))
            held.add_metric(at, float(each.held))
            if each.heard:  # without a report a 0 would look like a counter reset
                doubts.add_metric(at, each.doubted)
            for family, value in ((most, each.most_segments), (least, each.least_segments), (ratio, each.rtt_ratio)):
                if value is not None:
                    family.add_metric(at, value)
    yield from (sharers, bandwidth, released, active, most, least, held, ratio, doubts)


class _Traffic:
    """The packet counter and the byte counter of one kind of place."""

    def __init__(self, prefix: str, place: str, labels: list[str]) -> None:
        self._packets = CounterMetricFamily(f"{prefix}_packets", f"Packets through {place}", labels=labels)
        self._bytes = CounterMetricFamily(f"{prefix}_bytes", f"Bytes through {place}", labels=labels)
        self.families: tuple[Family, ...] = (self._packets, self._bytes)

    def add(self, labels: list[str], counters: Counters) -> None:
        self._packets.add_metric(labels, counters.packets)
        self._bytes.add_metric(labels, counters.bytes)
