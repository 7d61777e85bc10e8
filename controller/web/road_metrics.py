"""Roads between sites in Prometheus' words."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from controller.measuring.views import RoadView

ROAD, WAY = ["gateway", "uplink"], ["gateway", "uplink", "direction"]


def of_roads(roads: tuple[RoadView, ...]) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    measured = GaugeMetricFamily("bicast_road_measured", "1 while both ends' agents measure it", labels=ROAD)
    packets = CounterMetricFamily("bicast_road_packets", "Small packets since both ends last met", labels=ROAD)
    lost = CounterMetricFamily("bicast_road_lost", "Of these, those that were not answered", labels=ROAD)
    rtt = GaugeMetricFamily(
        "bicast_road_rtt_seconds", "Median round trip of small packets, of the longest window", labels=ROAD
    )
    figures: dict[str, GaugeMetricFamily] = {
        "bps": GaugeMetricFamily("bicast_road_bandwidth_bps", "What is to be had", labels=WAY),
        "least_bps": GaugeMetricFamily("bicast_road_bandwidth_least_bps", "The interval's lower end", labels=WAY),
        "most_bps": GaugeMetricFamily("bicast_road_bandwidth_most_bps", "The interval's upper end", labels=WAY),
        "age_s": GaugeMetricFamily("bicast_road_bandwidth_age_seconds", "Since it was measured", labels=WAY),
    }
    for road in roads:
        at = [road.site, road.uplink]
        measured.add_metric(at, float(road.why_not is None))
        if road.health is not None:
            packets.add_metric(at, road.health.sent)
            lost.add_metric(at, road.health.lost)
            longest = max(road.health.windows, key=lambda one: one.seconds, default=None)
            if longest is not None and longest.rtt_median_us:
                rtt.add_metric(at, longest.rtt_median_us / 1e6)
        for way in road.directions:
            for name, family in figures.items():
                if (value := getattr(way, name)) is not None:
                    family.add_metric([*at, way.direction], value)
    yield from (measured, packets, lost, rtt)
    yield from figures.values()
