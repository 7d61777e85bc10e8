# SPDX-License-Identifier: Apache-2.0
"""Metrics are readable by Prometheus and match the snapshot."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.model.config import Mode
from controller.readout.snapshot import Snapshot
from tests.controller.edges.http.fake_core import (
    AIR,
    DOUBTED,
    MEASURED,
    METERED,
    RELAYED,
    SHARED,
    SHARES,
    START,
    TUNNELLED,
    FakeCore,
)

Key = tuple[str, frozenset[tuple[str, str]]]


def _key(name: str, **labels: str) -> Key:
    return (f"bicast_{name}", frozenset(labels.items()))


WIFI, LTE = ({"gateway": "home", "uplink": name} for name in ("wifi", "lte"))
UP = LTE | {"direction": "up"}
CLIENT, TABLET = ({"gateway": "home", "access_point": "air", "terminal": name} for name in ("client", "tablet"))
SINGLE = replace(START.terminals[0], mode=Mode.AUTO, acting=Mode.SINGLE)
UNREAD = tuple(replace(one, sent=None, received=None) for one in START.terminals)
UNKNOWN = replace(DOUBTED, most_segments=None, least_segments=None, rtt_ratio=None)
SILENT = replace(DOUBTED, reporting=False, doubted=0)
NUMBERS: dict[str, tuple[Snapshot, dict[Key, float | None]]] = {  # None where there is no such series
    "gateways and agents": (replace(START, config_failures=4), {
        _key("configuration_failures_total"): 4, _key("configuration_loaded_timestamp_seconds"): 1_700_000_000.5,
        _key("gateway_state", gateway="home", state="steady"): 1,
        _key("gateway_state", gateway="home", state="absent"): 0,
        _key("gateway_state", gateway="shed", state="absent"): 1, _key("gateway_reconciles_total", gateway="home"): 3,
        _key("gateway_changes_sent_total", gateway="home"): 40, _key("gateway_refusals_total", gateway="home"): 0,
        _key("gateway_conflicts", gateway="home"): 1, _key("uplink_up", **WIFI): 1, _key("uplink_up", **LTE): 0,
        _key("uplink_packets_total", **WIFI, direction="up"): 3001,
        _key("uplink_bytes_total", **WIFI, direction="up"): 4000,
        _key("uplink_packets_total", **WIFI, direction="down"): 1001,
        _key("uplink_bytes_total", **WIFI, direction="down"): 2000,
        _key("uplink_dropped_packets_total", **WIFI, direction="up"): 6,
        _key("uplink_dropped_packets_total", **WIFI, direction="down"): 5,
        _key("copies_eliminated", gateway="home"): 1, _key("copies_window_seconds", gateway="home"): 0.02,
        _key("copies_packets_total", **WIFI, verdict="first"): 100,
        _key("copies_packets_total", **LTE, verdict="eliminated"): 98,
        _key("copies_packets_total", **WIFI, verdict="not_forwarded"): 7, _key("copies_silent", **WIFI): 0,
        _key("copies_silent", **LTE): 1, _key("copies_skew_seconds_bucket", **LTE, le=str(2**21 / 1e9)): 60,
        _key("copies_skew_seconds_bucket", **LTE, le="+Inf"): 100,
        _key("bucket_packets_total", **WIFI, group="client bicast"): 70,
        _key("bucket_bytes_total", **LTE, group="client bicast"): 7100,
        _key("terminal_packets_total", gateway="home", terminal="client", direction="up"): 10,
        _key("terminal_bytes_total", gateway="home", terminal="client", direction="down"): 2000,
        _key("agent_state", agent="relay-1", state="here"): 1,
        _key("agent_state", agent="relay-1", state="silent"): 0,
        _key("agent_state", agent="client", state="silent"): 1,
        _key("agent_reported_timestamp_seconds", agent="relay-1"): 1_700_000_010.0,
        _key("agent_reported_timestamp_seconds", agent="client"): None,
        _key("agent_reports_total", agent="relay-1"): 11, _key("agent_missing", agent="relay-1"): 1,
        _key("agent_cpu_seconds_total", agent="relay-1"): 5,
        _key("agent_resident_bytes", agent="relay-1"): 18_000_000,
        _key("agent_refusals_total", reason="token_used"): 3,
        _key("access_point_sharers", gateway="home", access_point="air"): None,
    }),
    "counters that were not read yet": (replace(START, terminals=UNREAD), {
        _key("terminal_packets_total", gateway="home", terminal="client", direction="up"): None,
    }),
    "a tunnel": (replace(START, gateways=(TUNNELLED,)), {
        _key("tunnel_up", **LTE): 0, _key("tunnel_up", **WIFI): None, _key("tunnel_rtt_seconds", **LTE): 0.0085,
        _key("tunnel_mtu_bytes", **LTE): 1380, _key("tunnel_moves_total", **LTE): 2,
    }),
    "copied terminals and used budgets": (replace(START, gateways=(METERED,), terminals=(SINGLE, START.terminals[1])), {
        _key("copies_had", gateway="home", terminal="client", mode="auto"): 0,
        _key("copies_had", gateway="home", terminal="tablet", mode="bicast"): 1,
        _key("budget_used_bytes", **LTE): 99_900_000, _key("budget_used_bytes", **WIFI): None,
        _key("copies_barred", **LTE): 1,
    }),
    "paths by direction": (MEASURED, {
        _key("path_measured", **LTE): 1, _key("path_measured", **WIFI): 0, _key("path_packets_total", **LTE): 7000,
        _key("path_lost_total", **LTE): 5, _key("path_rtt_seconds", **LTE): 0.0413,
        _key("path_bandwidth_bps", **UP): 9_980_000, _key("path_bandwidth_least_bps", **UP): 9_900_000,
        _key("path_bandwidth_most_bps", **UP): 10_100_000, _key("path_bandwidth_age_seconds", **UP): 240,
        **{_key(f"path_bandwidth_{name}", **LTE, direction="down"): None for name in ("bps", "age_seconds")},
    }),
    "caps of each sharing terminal": (replace(SHARED, access_points=(replace(AIR, terminals=(SHARES, UNKNOWN)),)), {
        _key("access_point_sharers", gateway="home", access_point="air"): 2,
        _key("access_point_bandwidth_bps", gateway="home", access_point="air"): 20_000_000,
        _key("access_point_released", gateway="home", access_point="air"): 0, _key("cap_active", **CLIENT): 1,
        _key("cap_active", **TABLET): 1, _key("cap_most_segments", **CLIENT): 10,
        _key("cap_most_segments", **TABLET): None, _key("cap_least_segments", **CLIENT): 8,
        _key("cap_least_segments", **TABLET): None, _key("cap_held", **CLIENT): 1, _key("cap_held", **TABLET): 0,
        _key("cap_rtt_ratio", **CLIENT): 1.5, _key("cap_rtt_ratio", **TABLET): None,
        _key("cap_doubts_total", **CLIENT): 0, _key("cap_doubts_total", **TABLET): 3,
    }),
    "no doubts of a silent terminal": (replace(SHARED, access_points=(replace(AIR, terminals=(SHARES, SILENT)),)), {
        _key("cap_doubts_total", **CLIENT): 0, _key("cap_doubts_total", **TABLET): None,
    }),
    "relays and intercepted connections": (RELAYED, {
        _key("relay_up", relay="tokyo"): 1, _key("relay_draining", relay="tokyo"): 0,
        _key("relay_connections", relay="tokyo"): 3, _key("relay_carried_total", relay="tokyo"): 900,
        _key("relay_bytes_down_total", relay="tokyo"): 10**8, _key("relay_overhead_seconds", relay="tokyo"): 80e-6,
        _key("relay_busy_ratio", relay="tokyo"): 0.12, _key("relay_reached", gateway="home", relay="tokyo"): 1,
        _key("relay_reached", gateway="shed", relay="tokyo"): 0,
        _key("relay_setup_seconds", gateway="home", relay="tokyo"): 0.041, _key("intercepting", gateway="home"): 1,
        _key("intercepted_relayed_total", gateway="home", terminal="client"): 120,
        _key("intercepted_direct_total", gateway="home", terminal="client"): 4,
    }),
}  # fmt: skip


@pytest.mark.parametrize(("snapshot", "expected"), NUMBERS.values(), ids=NUMBERS)
def test_metrics_match_the_snapshot(
    http: httpx.Client, fake_core: FakeCore, snapshot: Snapshot, expected: dict[Key, float | None]
) -> None:
    fake_core.snapshot = snapshot
    answer = http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    samples = [one for family in text_string_to_metric_families(answer.text) for one in family.samples]
    found = {(one.name, frozenset(one.labels.items())): one.value for one in samples}
    assert len(found) == len(samples), "a series is written twice"
    assert {key: found.get(key) for key in expected} == expected
