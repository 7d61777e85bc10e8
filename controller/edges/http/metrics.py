# SPDX-License-Identifier: Apache-2.0
"""The metrics of a Snapshot for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from controller.features.caps.view import AccessPointView
from controller.features.probing.view import PathView
from controller.features.relays.view import InterceptionView, RelayView
from controller.model.redundancy import BY_MODE
from controller.program.program import PacketCounters
from controller.readout.snapshot import AgentState, AgentView, BucketView, GatewayView, Snapshot
from controller.switches.switch import GatewayState

# Relays

RelayFamily = CounterMetricFamily | GaugeMetricFamily
Told = Sequence[tuple[list[str], object]]  # with labels


@dataclass(frozen=True, slots=True)
class RelayMetric:
    """A metric of a relay."""

    of: str
    name: str
    help: str
    counts: bool = True  # it only grows
    unit: float = 1.0

    def family(self, labels: list[str]) -> RelayFamily:
        kind = CounterMetricFamily if self.counts else GaugeMetricFamily
        return kind(self.name, self.help, labels=labels)


OF_A_RELAY = (
    RelayMetric("connections", "bicast_relay_connections", "Open connections that the relay carries", counts=False),
    RelayMetric("waiting", "bicast_relay_waiting", "Connections of gateways without a request yet", counts=False),
    RelayMetric("carried", "bicast_relay_carried", "Connections that the relay has carried"),
    RelayMetric("refused", "bicast_relay_refused", "Requests that the relay refused"),
    RelayMetric("failed", "bicast_relay_failed", "Requests for destinations that did not answer"),
    RelayMetric(
        "unauthenticated", "bicast_relay_unauthenticated", "Connections refused for lack of a valid certificate"
    ),
    RelayMetric("bytes_up", "bicast_relay_bytes_up", "Bytes to servers"),
    RelayMetric("bytes_down", "bicast_relay_bytes_down", "Bytes from servers"),
    RelayMetric("overhead_us", "bicast_relay_overhead_seconds", "Delay that the relay adds", counts=False, unit=1e6),
    RelayMetric(
        "busy_percent",
        "bicast_relay_busy_ratio",
        "Load of the relay's busiest processor, from 0 to 1",
        counts=False,
        unit=100,
    ),
)
OF_A_TERMINAL = (
    RelayMetric(
        "connections",
        "bicast_intercepted_connections",
        "Open connections of the terminal that are intercepted",
        counts=False,
    ),
    RelayMetric("relayed", "bicast_intercepted_relayed", "Connections of the terminal sent through a relay"),
    RelayMetric("direct", "bicast_intercepted_direct", "Connections of the terminal sent directly"),
    RelayMetric(
        "reset", "bicast_intercepted_reset", "Connections of the terminal reset because no relay was reachable"
    ),
    RelayMetric("bytes_up", "bicast_intercepted_bytes_up", "Bytes from the terminal"),
    RelayMetric("bytes_down", "bicast_intercepted_bytes_down", "Bytes to the terminal"),
)


def of_relays(relays: tuple[RelayView, ...], interceptions: tuple[InterceptionView, ...]) -> Iterator[RelayFamily]:
    up = GaugeMetricFamily("bicast_relay_up", "1 while the relay is up", labels=["relay"])
    draining = GaugeMetricFamily(
        "bicast_relay_draining", "1 while the relay is draining: it accepts no new connections", labels=["relay"]
    )
    reached = GaugeMetricFamily(
        "bicast_relay_reached", "1 while the gateway reaches the relay", labels=["gateway", "relay"]
    )
    set_up = GaugeMetricFamily(
        "bicast_relay_setup_seconds",
        "Time to set up TCP and TLS for the last connection to the relay",
        labels=["gateway", "relay"],
    )
    takes = GaugeMetricFamily(
        "bicast_intercepting", "1 while the gateway intercepts terminals' TCP as configured", labels=["gateway"]
    )
    for one in relays:
        up.add_metric([one.name], float(one.why_not is None))
        draining.add_metric([one.name], float(one.draining))
        for each in one.reached:
            reached.add_metric([each.gateway, one.name], float(each.reason is None))
            if each.setup_ms is not None:
                set_up.add_metric([each.gateway, one.name], each.setup_ms / 1e3)
    for site in interceptions:
        takes.add_metric([site.gateway], float(site.why_not is None))
    yield from (up, draining, reached, set_up, takes)
    yield from _families(OF_A_RELAY, ["relay"], [([one.name], one.report) for one in relays if one.report is not None])
    terminals = [([site.gateway, each.name], each) for site in interceptions for each in site.terminals]
    yield from _families(OF_A_TERMINAL, ["gateway", "terminal"], terminals)


def _families(
    figures: tuple[RelayMetric, ...], labels: list[str], labelled: Sequence[tuple[list[str], object]]
) -> Iterator[RelayFamily]:
    for figure in figures:
        family = figure.family(labels)
        for at, one in labelled:
            family.add_metric(at, getattr(one, figure.of) / figure.unit)
        yield family


# Paths between sites

PATH, WAY = ["gateway", "uplink"], ["gateway", "uplink", "direction"]


def of_paths(paths: tuple[PathView, ...]) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    measured = GaugeMetricFamily(
        "bicast_path_measured", "1 while the agents at both ends measure the path", labels=PATH
    )
    packets = CounterMetricFamily(
        "bicast_path_packets", "Small probe packets since the session between both ends began", labels=PATH
    )
    lost = CounterMetricFamily("bicast_path_lost", "Small probe packets that were not answered", labels=PATH)
    rtt = GaugeMetricFamily(
        "bicast_path_rtt_seconds", "Median round trip of small probe packets over the longest window", labels=PATH
    )
    figures: dict[str, GaugeMetricFamily] = {
        "bps": GaugeMetricFamily("bicast_path_bandwidth_bps", "Estimated bandwidth", labels=WAY),
        "least_bps": GaugeMetricFamily(
            "bicast_path_bandwidth_least_bps", "Lower end of the bandwidth's 95 % interval", labels=WAY
        ),
        "most_bps": GaugeMetricFamily(
            "bicast_path_bandwidth_most_bps", "Upper end of the bandwidth's 95 % interval", labels=WAY
        ),
        "age_s": GaugeMetricFamily("bicast_path_bandwidth_age_seconds", "Age of the bandwidth measurement", labels=WAY),
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


def registry_of(reader: Callable[[], Snapshot], buckets: Callable[[], Iterable[BucketView]]) -> CollectorRegistry:
    """Return a separate registry: one snapshot per scrape, no process metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_CoreCollector(reader, buckets))
    return registry


class _CoreCollector(Collector):
    def __init__(self, reader: Callable[[], Snapshot], buckets: Callable[[], Iterable[BucketView]]) -> None:
        self._reader, self._buckets = reader, buckets

    def collect(self) -> Iterator[Family]:
        snapshot = self._reader()
        yield from _configuration(snapshot)
        yield from _gateways(snapshot.gateways)
        yield from _uplinks(snapshot.gateways)
        yield from _copies(snapshot.gateways)
        yield from _copied(snapshot)
        yield from _tunnels(snapshot.gateways)
        yield from _buckets(self._buckets())
        yield from _terminals(snapshot)
        yield from _agents(snapshot.agents)
        yield from _access_points(snapshot.access_points)
        yield from of_paths(snapshot.paths)
        yield from of_relays(snapshot.relays, snapshot.interceptions)


def _configuration(snapshot: Snapshot) -> Iterator[Family]:
    yield CounterMetricFamily(
        "bicast_configuration_failures",
        "Configurations that were refused; the previous one stayed in force",
        value=snapshot.config_failures,
    )
    yield GaugeMetricFamily(
        "bicast_configuration_loaded_timestamp_seconds",
        "Time at which the configuration in force was loaded",
        value=snapshot.config_loaded_at,
    )


def _gateways(gateways: tuple[GatewayView, ...]) -> Iterator[Family]:
    state = GaugeMetricFamily(
        "bicast_gateway_state", "1 for the state the switch is in, 0 for the others", labels=["gateway", "state"]
    )
    reconciles = CounterMetricFamily(
        "bicast_gateway_reconciles",
        "Comparisons of the wanted program with the switch's program",
        labels=["gateway"],
    )
    changes = CounterMetricFamily(
        "bicast_gateway_changes_sent", "Flow, group and meter modifications sent", labels=["gateway"]
    )
    refusals = CounterMetricFamily("bicast_gateway_refusals", "Modifications the switch refused", labels=["gateway"])
    conflicts = GaugeMetricFamily(
        "bicast_gateway_conflicts", "Foreign flows in the place of flows of this controller", labels=["gateway"]
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
    up = GaugeMetricFamily("bicast_uplink_up", "1 while the uplink's port exists and is up", labels=labels)
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
    up = GaugeMetricFamily(
        "bicast_tunnel_up", "1 while packets arrive from the other end of the uplink's tunnel", labels=labels
    )
    rtt = GaugeMetricFamily("bicast_tunnel_rtt_seconds", "Round trip of the last answered tunnel probe", labels=labels)
    mtu = GaugeMetricFamily("bicast_tunnel_mtu_bytes", "Longest IP packet that passes the tunnel", labels=labels)
    moves = CounterMetricFamily("bicast_tunnel_moves", "Changes of the other end's outer address", labels=labels)
    for at, tunnel in (([one.name, each.name], each.tunnel) for one in gateways for each in one.uplinks if each.tunnel):
        up.add_metric(at, float(tunnel.up))
        end = tunnel.end
        if end is not None:
            rtt.add_metric(at, end.rtt_us / 1e6)
            mtu.add_metric(at, end.mtu_bytes)
            moves.add_metric(at, end.moves)
    yield from (up, rtt, mtu, moves)


def _copies(gateways: tuple[GatewayView, ...]) -> Iterator[Family]:
    eliminates = GaugeMetricFamily(
        "bicast_copies_eliminated",
        "1 while duplicates are eliminated, so that one copy of each packet passes",
        labels=["gateway"],
    )
    window = GaugeMetricFamily(
        "bicast_copies_window_seconds",
        "Time after the first copy within which another is recognized",
        labels=["gateway"],
    )
    packets = CounterMetricFamily(
        "bicast_copies_packets", "Packets by uplink and verdict", labels=["gateway", "uplink", "verdict"]
    )
    silent = GaugeMetricFamily(
        "bicast_copies_silent", "1 while no copies arrive over an uplink but over others", labels=["gateway", "uplink"]
    )
    skew = HistogramMetricFamily(
        "bicast_copies_skew_seconds", "Time between the first copy and another one", labels=["gateway", "uplink"]
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
    had = GaugeMetricFamily(
        "bicast_copies_had", "1 while the terminal's packets are copied", labels=["gateway", "terminal", "mode"]
    )
    labels = ["gateway", "uplink"]
    used = GaugeMetricFamily(
        "bicast_budget_used_bytes", "Bytes that an uplink with limits has carried this day or month", labels=labels
    )
    barred = GaugeMetricFamily(
        "bicast_copies_barred", "1 while the uplink's budget allows no more copies", labels=labels
    )
    for terminal in snapshot.terminals:
        had.add_metric([terminal.gateway, terminal.name, terminal.mode], float(BY_MODE[terminal.acting].spends))
    for gateway in snapshot.gateways:
        for name, budget in ((each.name, each.budget) for each in gateway.uplinks if each.budget is not None):
            used.add_metric([gateway.name, name], budget.used_bytes)
            barred.add_metric([gateway.name, name], float(budget.barred is not None))
    yield from (had, used, barred)


def _histogram(steps: tuple[int, ...]) -> tuple[list[tuple[str, float]], None]:
    """Return cumulative buckets, in seconds, of counts by powers of two in nanoseconds."""
    sums = list(accumulate(steps))
    bounds = [(str(2 ** (step + 1) / 1e9), float(so_far)) for step, so_far in enumerate(sums)]
    return [*bounds, ("+Inf", float(sums[-1] if sums else 0))], None


def _buckets(buckets: Iterable[BucketView]) -> Iterator[Family]:
    """Yield counters of buckets towards uplinks. `_terminals` has those to terminals."""
    traffic = _Traffic("bicast_bucket", "a group's bucket", ["gateway", "group", "uplink"])
    for each in buckets:
        traffic.add([each.gateway, each.group, each.uplink], each.counters)
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
        "bicast_agent_reported_timestamp_seconds", "Time at which the agent's last report arrived", labels=["agent"]
    )
    reports = CounterMetricFamily("bicast_agent_reports", "Reports that the agent has sent", labels=["agent"])
    missing = GaugeMetricFamily(
        "bicast_agent_missing", "Capabilities that the agent lacks on its host", labels=["agent"]
    )
    cpu = CounterMetricFamily("bicast_agent_cpu_seconds", "Processor time of the agent itself", labels=["agent"])
    memory = GaugeMetricFamily("bicast_agent_resident_bytes", "Resident memory of the agent itself", labels=["agent"])
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
        "bicast_access_point_sharers", "Terminals that share the access point now", labels=["gateway", "access_point"]
    )
    bandwidth = GaugeMetricFamily(
        "bicast_access_point_bandwidth_bps",
        "Bandwidth that the rule `ideal` divides among terminals",
        labels=["gateway", "access_point"],
    )
    released = GaugeMetricFamily(
        "bicast_access_point_released",
        "1 while caps are released because a sender without a cap is active",
        labels=["gateway", "access_point"],
    )
    active = GaugeMetricFamily("bicast_cap_active", "1 while the terminal sends", labels=labels)
    most = GaugeMetricFamily(
        "bicast_cap_most_segments", "Window limit for all connections of the terminal together", labels=labels
    )
    least = GaugeMetricFamily(
        "bicast_cap_least_segments",
        "Minimum window of all connections of the terminal, also after losses; 0: none",
        labels=labels,
    )
    enforced = GaugeMetricFamily("bicast_cap_held", "1 while an agent enforces the terminal's cap", labels=labels)
    ratio = GaugeMetricFamily(
        "bicast_cap_rtt_ratio", "Round-trip time divided by the minimum round-trip time", labels=labels
    )
    doubts = CounterMetricFamily(
        "bicast_cap_doubts", "Reports about the terminal that were implausible and ignored", labels=labels
    )
    for one in access_points:
        sharers.add_metric([one.gateway, one.name], one.active)
        released.add_metric([one.gateway, one.name], float(one.released is not None))
        if one.bandwidth_bps is not None:
            bandwidth.add_metric([one.gateway, one.name], one.bandwidth_bps)
        for each in one.terminals:
            at = [one.gateway, one.name, each.terminal]
            active.add_metric(at, float(each.active))
            enforced.add_metric(at, float(each.held))
            if each.reporting:  # without a report a 0 would look like a counter reset
                doubts.add_metric(at, each.doubted)
            for family, value in ((most, each.most_segments), (least, each.least_segments), (ratio, each.rtt_ratio)):
                if value is not None:
                    family.add_metric(at, value)
    yield from (sharers, bandwidth, released, active, most, least, enforced, ratio, doubts)


class _Traffic:
    """The packet and byte counters of one kind of place."""

    def __init__(self, prefix: str, subject: str, labels: list[str]) -> None:
        self._packets = CounterMetricFamily(f"{prefix}_packets", f"Packets through {subject}", labels=labels)
        self._bytes = CounterMetricFamily(f"{prefix}_bytes", f"Bytes through {subject}", labels=labels)
        self.families: tuple[Family, ...] = (self._packets, self._bytes)

    def add(self, labels: list[str], counters: PacketCounters) -> None:
        self._packets.add_metric(labels, counters.packets)
        self._bytes.add_metric(labels, counters.bytes)
