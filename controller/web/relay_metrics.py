"""Relays and what they carry in Prometheus' words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from controller.relaying.views import RelayView, TakingView

Family = CounterMetricFamily | GaugeMetricFamily
Told = Sequence[tuple[list[str], object]]  # with labels


@dataclass(frozen=True, slots=True)
class Figure:
    """One that an agent tells, and what it is."""

    of: str  # the attribute
    name: str
    help: str
    counts: bool = True  # it only grows
    unit: float = 1.0

    def family(self, labels: list[str]) -> Family:
        kind = CounterMetricFamily if self.counts else GaugeMetricFamily
        return kind(self.name, self.help, labels=labels)


OF_A_RELAY = (
    Figure("connections", "bicast_relay_connections", "What the relay carries now", counts=False),
    Figure("waiting", "bicast_relay_waiting", "Connections of gateways where nothing was asked yet", counts=False),
    Figure("carried", "bicast_relay_carried", "Connections that it has carried"),
    Figure("refused", "bicast_relay_refused", "Requests that it has refused"),
    Figure("failed", "bicast_relay_failed", "Requests for destinations that did not answer"),
    Figure("strangers", "bicast_relay_strangers", "Who showed it no certificate that counts"),
    Figure("bytes_up", "bicast_relay_bytes_up", "Bytes to servers"),
    Figure("bytes_down", "bicast_relay_bytes_down", "Bytes from servers"),
    Figure("overhead_us", "bicast_relay_overhead_seconds", "How long it holds bytes back", counts=False, unit=1e6),
    Figure("busy_percent", "bicast_relay_busy_ratio", "Of its least idle processor", counts=False, unit=100),
)
OF_A_TERMINAL = (
    Figure("connections", "bicast_taken_connections", "The terminal's, that are taken now", counts=False),
    Figure("relayed", "bicast_taken_relayed", "Its connections that went by a relay"),
    Figure("direct", "bicast_taken_direct", "Its connections that went directly"),
    Figure("reset", "bicast_taken_reset", "Its connections that were reset, as no relay was reached"),
    Figure("bytes_up", "bicast_taken_bytes_up", "Bytes from the terminal"),
    Figure("bytes_down", "bicast_taken_bytes_down", "Bytes to it"),
)


def of_relays(relays: tuple[RelayView, ...], taking: tuple[TakingView, ...]) -> Iterator[Family]:
    up = GaugeMetricFamily("bicast_relay_up", "1 while the relay stands", labels=["relay"])
    draining = GaugeMetricFamily("bicast_relay_draining", "1 while it takes nothing new", labels=["relay"])
    reached = GaugeMetricFamily("bicast_relay_reached", "1 while the gateway reaches it", labels=["gateway", "relay"])
    set_up = GaugeMetricFamily(
        "bicast_relay_setup_seconds", "TCP and TLS of the last connection to it", labels=["gateway", "relay"]
    )
    takes = GaugeMetricFamily(
        "bicast_taking", "1 while terminals' TCP is taken there as it is to be", labels=["gateway"]
    )
    for one in relays:
        up.add_metric([one.name], float(one.why_not is None))
        draining.add_metric([one.name], float(one.draining))
        for each in one.reached:
            reached.add_metric([each.gateway, one.name], float(each.because is None))
            if each.setup_ms is not None:
                set_up.add_metric([each.gateway, one.name], each.setup_ms / 1e3)
    for site in taking:
        takes.add_metric([site.gateway], float(site.why_not is None))
    yield from (up, draining, reached, set_up, takes)
    yield from _families(OF_A_RELAY, ["relay"], [([one.name], one.told) for one in relays if one.told is not None])
    terminals = [([site.gateway, each.name], each) for site in taking for each in site.terminals]
    yield from _families(OF_A_TERMINAL, ["gateway", "terminal"], terminals)


def _families(
    figures: tuple[Figure, ...], labels: list[str], told: Sequence[tuple[list[str], object]]
) -> Iterator[Family]:
    for figure in figures:
        family = figure.family(labels)
        for at, one in told:
            family.add_metric(at, getattr(one, figure.of) / figure.unit)
        yield family
