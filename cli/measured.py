# SPDX-License-Identifier: Apache-2.0
"""Measured values as tables show them, with source and age."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cli.tables import ago
from controller.model.config import CapRule


def access_points(ruled: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    yield ("ACCESS POINT", "GATEWAY", "RULE", "ACTIVE", "BANDWIDTH")
    for one in ruled:
        yield (one["name"], one["gateway"], one["rule"], str(one["active"]), bandwidth(one))


def paths(listed: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield a row per direction. Loss and round trip cover both."""
    yield ("ROAD", "FROM", "TO", "LOST", "RTT", "BANDWIDTH")
    for path in listed:
        up, down = (path["near"], path["far"]), (path["far"], path["near"])
        lost, rtt = _health(path["health"])
        if not path["directions"]:
            yield (path["uplink"], *up, lost, rtt, f"not measured: {path['why_not']}")
        for way in path["directions"]:
            ends = up if way["direction"] == "up" else down
            yield (path["uplink"], *ends, lost, rtt, _way(way, path["why_not"]))


def is_of_a_phone(path: dict[str, Any]) -> bool:
    """Return whether the path is to a terminal without an agent: there may be hundreds, all without data."""
    known = path["health"] is not None or any(way["bps"] is not None or way["running"] for way in path["directions"])
    return "@" in path["uplink"] and path["why_not"] is not None and not known


def _way(way: dict[str, Any], why_not: str | None) -> str:
    if way["bps"] is not None:
        found = f"{interval(way)}, {' and '.join(way['methods'])}, {ago(way['age_s'])} ago"
    else:
        found = f"not known: {way['reason']}"
    narrow = way["mtu_bytes"]
    more = (
        f"no packet above {narrow} bytes passes" if narrow is not None else "",
        "it is being probed" if way["running"] else "",
        f"not measured: {why_not}" if why_not is not None else "",
        f"the last probe: {way['error']}" if way["error"] else "",
    )
    return "; ".join(part for part in (found, *more) if part)


def _health(health: dict[str, Any] | None) -> tuple[str, str]:
    window = max(health["windows"], key=lambda one: one["seconds"], default=None) if health is not None else None
    if window is None or not window["sent"]:
        return "-", "-"
    rtt_us = window["rtt_median_us"]
    return f"{100 * window['lost'] / window['sent']:.3g} %", f"{rtt_us / 1000:.1f} ms" if rtt_us else "-"


def interval(rate: dict[str, Any]) -> str:
    to = "up" if rate["most_bps"] is None else f"to {rate['most_bps'] / 1e6:.3g}"
    return f"{rate['bps'] / 1e6:.4g} Mbit/s ({rate['least_bps'] / 1e6:.3g} {to})"


def bandwidth(access_point: dict[str, Any]) -> str:
    bps, measured = access_point["bandwidth_bps"], access_point["measured"]
    if bps is None:
        return "not known yet" if access_point["rule"] == CapRule.IDEAL else "-"
    if measured is None:
        return f"{bps / 1e6:.4g} Mbit/s, written in gateway.yaml"
    return f"{interval({'bps': bps, **measured})}, {measured['by']}, {ago(measured['age_s'])} ago"
