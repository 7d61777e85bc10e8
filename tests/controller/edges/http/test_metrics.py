# SPDX-License-Identifier: Apache-2.0
"""Metrics are readable by Prometheus and match the snapshot."""

from __future__ import annotations

from dataclasses import replace

import httpx
from prometheus_client.parser import text_string_to_metric_families

from controller.model.config import Mode
from tests.controller.edges.http.fake_core import HOME, MEASURED, METERED, RELAYED, SHARED, TUNNELLED, FakeCore


def _samples(http: httpx.Client) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    answer = http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    samples = [one for family in text_string_to_metric_families(answer.text) for one in family.samples]
    found = {(one.name, frozenset(one.labels.items())): one.value for one in samples}
    assert len(found) == len(samples), "a series is written twice"
    return found


def _key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return (name, frozenset(labels.items()))


def test_metrics_have_every_number_of_the_snapshot(http: httpx.Client, fake_core: FakeCore) -> None:
    fake_core.snapshot = replace(fake_core.snapshot, config_failures=4)
    samples = _samples(http)
    wifi = {"gateway": "home", "uplink": "wifi"}
    expected = {
        _key("bicast_configuration_failures_total"): 4,
        _key("bicast_configuration_loaded_timestamp_seconds"): 1_700_000_000.5,
        _key("bicast_gateway_state", gateway="home", state="steady"): 1,
        _key("bicast_gateway_state", gateway="home", state="absent"): 0,
        _key("bicast_gateway_state", gateway="shed", state="absent"): 1,
        _key("bicast_gateway_reconciles_total", gateway="home"): 3,
        _key("bicast_gateway_changes_sent_total", gateway="home"): 40,
        _key("bicast_gateway_refusals_total", gateway="home"): 0,
        _key("bicast_gateway_conflicts", gateway="home"): 1,
        _key("bicast_uplink_up", **wifi): 1,
        _key("bicast_uplink_up", gateway="home", uplink="lte"): 0,
        _key("bicast_uplink_packets_total", **wifi, direction="up"): 3001,
        _key("bicast_uplink_bytes_total", **wifi, direction="up"): 4000,
        _key("bicast_uplink_packets_total", **wifi, direction="down"): 1001,
        _key("bicast_uplink_bytes_total", **wifi, direction="down"): 2000,
        _key("bicast_uplink_dropped_packets_total", **wifi, direction="up"): 6,
        _key("bicast_uplink_dropped_packets_total", **wifi, direction="down"): 5,
        _key("bicast_copies_eliminated", gateway="home"): 1,
        _key("bicast_copies_window_seconds", gateway="home"): 0.02,
        _key("bicast_copies_packets_total", **wifi, verdict="first"): 100,
        _key("bicast_copies_packets_total", gateway="home", uplink="lte", verdict="eliminated"): 98,
        _key("bicast_copies_packets_total", **wifi, verdict="not_forwarded"): 7,
        _key("bicast_copies_silent", **wifi): 0,
        _key("bicast_copies_silent", gateway="home", uplink="lte"): 1,
        _key("bicast_copies_skew_seconds_bucket", gateway="home", uplink="lte", le=str(2**21 / 1e9)): 60,
        _key("bicast_copies_skew_seconds_bucket", gateway="home", uplink="lte", le="+Inf"): 100,
        _key("bicast_bucket_packets_total", **wifi, group="client bicast"): 70,
        _key("bicast_bucket_bytes_total", gateway="home", uplink="lte", group="client bicast"): 7100,
        _key("bicast_terminal_packets_total", gateway="home", terminal="client", direction="up"): 10,
        _key("bicast_terminal_bytes_total", gateway="home", terminal="client", direction="down"): 2000,
        _key("bicast_agent_state", agent="relay-1", state="here"): 1,
        _key("bicast_agent_state", agent="relay-1", state="silent"): 0,
        _key("bicast_agent_state", agent="client", state="silent"): 1,
        _key("bicast_agent_reported_timestamp_seconds", agent="relay-1"): 1_700_000_010.0,
        _key("bicast_agent_reported_timestamp_seconds", agent="client"): None,
        _key("bicast_agent_reports_total", agent="relay-1"): 11,
        _key("bicast_agent_missing", agent="relay-1"): 1,
        _key("bicast_agent_cpu_seconds_total", agent="relay-1"): 5,
        _key("bicast_agent_resident_bytes", agent="relay-1"): 18_000_000,
    }
    assert {key: samples.get(key) for key in expected} == expected


def test_metrics_omit_counters_that_were_not_read_yet(http: httpx.Client, fake_core: FakeCore) -> None:
    fake_core.snapshot = replace(
        fake_core.snapshot,
        terminals=tuple(replace(one, sent=None, received=None) for one in fake_core.snapshot.terminals),
    )
    assert not [key for key in _samples(http) if key[0].startswith("bicast_terminal")]


def test_metrics_of_a_tunnel_match_its_end(http: httpx.Client, fake_core: FakeCore) -> None:
    fake_core.snapshot = replace(fake_core.snapshot, gateways=(TUNNELLED,))
    samples = _samples(http)
    lte = {"gateway": "home", "uplink": "lte"}
    expected = {"up": 0, "rtt_seconds": 0.0085, "mtu_bytes": 1380, "moves_total": 2, "unauthenticated_total": 9}
    assert {name: samples[_key(f"bicast_tunnel_{name}", **lte)] for name in expected} == expected
    assert not [key for key in samples if key[0].startswith("bicast_tunnel") and ("uplink", "wifi") in key[1]]


def test_metrics_have_copied_terminals_and_used_budgets(http: httpx.Client, fake_core: FakeCore) -> None:
    client, tablet = fake_core.snapshot.terminals
    single = replace(client, mode=Mode.AUTO, acting=Mode.SINGLE)
    fake_core.snapshot = replace(fake_core.snapshot, gateways=(METERED,), terminals=(single, tablet))
    samples = _samples(http)
    assert samples[_key("bicast_copies_had", gateway="home", terminal="client", mode="auto")] == 0
    assert samples[_key("bicast_copies_had", gateway="home", terminal="tablet", mode="bicast")] == 1
    assert samples[_key("bicast_copies_used_bytes", gateway="home", uplink="lte")] == 99_900_000
    assert samples[_key("bicast_copies_barred", gateway="home", uplink="lte")] == 1
    assert not [key for key in samples if key[0] == "bicast_copies_used_bytes" and ("uplink", "wifi") in key[1]]


def test_metrics_have_paths_by_direction_and_omit_unknowns(http: httpx.Client, fake_core: FakeCore) -> None:
    fake_core.snapshot = MEASURED
    samples = _samples(http)
    lte = {"gateway": "home", "uplink": "lte"}
    of_road = {"measured": 1, "packets_total": 7000, "lost_total": 5, "rtt_seconds": 0.0413}
    assert {name: samples[_key(f"bicast_path_{name}", **lte)] for name in of_road} == of_road
    assert samples[_key("bicast_path_measured", gateway="home", uplink="wifi")] == 0
    up = {"bps": 9_980_000, "least_bps": 9_900_000, "most_bps": 10_100_000, "age_seconds": 240}
    told = {name: samples[_key(f"bicast_path_bandwidth_{name}", direction="up", **lte)] for name in up}
    assert told == up
    assert not [key for key in samples if ("direction", "down") in key[1] and "path" in key[0]]


def test_metrics_have_the_caps_of_each_sharing_terminal(http: httpx.Client, fake_core: FakeCore) -> None:
    assert not [key for key in _samples(http) if key[0].startswith(("bicast_cap", "bicast_access_point"))]
    unknown = replace(SHARED.access_points[0].terminals[1], most_segments=None, least_segments=None, rtt_ratio=None)
    air = replace(SHARED.access_points[0], terminals=(SHARED.access_points[0].terminals[0], unknown))
    fake_core.snapshot = replace(SHARED, access_points=(air,))
    samples = _samples(http)
    there = {"gateway": "home", "access_point": "air"}
    carried = {name: samples[_key(f"bicast_access_point_{name}", **there)] for name in ("sharers", "bandwidth_bps")}
    assert carried == {"sharers": 2, "bandwidth_bps": 20_000_000}
    assert samples[_key("bicast_access_point_released", **there)] == 0
    of = {name: {"gateway": "home", "access_point": "air", "terminal": name} for name in ("client", "tablet")}
    told = {"active": 1, "most_segments": 10, "least_segments": 8, "held": 1, "rtt_ratio": 1.5, "doubts_total": 0}
    assert {name: samples[_key(f"bicast_cap_{name}", **of["client"])] for name in told} == told
    unheard = {name: samples.get(_key(f"bicast_cap_{name}", **of["tablet"])) for name in told}
    assert unheard == {
        "active": 1, "most_segments": None, "least_segments": None, "held": 0, "rtt_ratio": None, "doubts_total": 3
    }  # fmt: skip


def test_metrics_omit_doubts_of_a_silent_terminal(http: httpx.Client, fake_core: FakeCore) -> None:
    heard, doubted = SHARED.access_points[0].terminals
    silent = replace(doubted, heard=False, doubted=0)
    fake_core.snapshot = replace(SHARED, access_points=(replace(SHARED.access_points[0], terminals=(heard, silent)),))
    told_of = {dict(labels)["terminal"] for name, labels in _samples(http) if name == "bicast_cap_doubts_total"}
    assert told_of == {heard.terminal}


def test_metrics_add_up_groups_with_one_label(http: httpx.Client, fake_core: FakeCore) -> None:
    twice = replace(HOME, groups=(*HOME.groups, replace(HOME.groups[0], id=0x62000009)))
    fake_core.snapshot = replace(fake_core.snapshot, gateways=(twice,))
    samples = _samples(http)
    assert samples[_key("bicast_bucket_packets_total", gateway="home", group="client bicast", uplink="wifi")] == 140


def test_metrics_count_relays_and_intercepted_connections(http: httpx.Client, fake_core: FakeCore) -> None:
    fake_core.snapshot = RELAYED
    samples = _samples(http)
    expected = {
        _key("bicast_relay_up", relay="tokyo"): 1,
        _key("bicast_relay_draining", relay="tokyo"): 0,
        _key("bicast_relay_connections", relay="tokyo"): 3,
        _key("bicast_relay_carried_total", relay="tokyo"): 900,
        _key("bicast_relay_bytes_down_total", relay="tokyo"): 10**8,
        _key("bicast_relay_overhead_seconds", relay="tokyo"): 80e-6,
        _key("bicast_relay_busy_ratio", relay="tokyo"): 0.12,
        _key("bicast_relay_reached", gateway="home", relay="tokyo"): 1,
        _key("bicast_relay_reached", gateway="shed", relay="tokyo"): 0,
        _key("bicast_relay_setup_seconds", gateway="home", relay="tokyo"): 0.041,
        _key("bicast_intercepting", gateway="home"): 1,
        _key("bicast_intercepted_relayed_total", gateway="home", terminal="client"): 120,
        _key("bicast_intercepted_direct_total", gateway="home", terminal="client"): 4,
    }
    assert {key: samples.get(key) for key in expected} == expected
