"""What was measured, as `status` and others show it: with where it is known from, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cli.tables import ago
from controller.model import CapRule


def access_points(ruled: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    yield ("ACCESS POINT", "GATEWAY", "RULE", "ACTIVE", "BANDWIDTH")
    for one in ruled:
        yield (one["name"], one["gateway"], one["rule"], str(one["active"]), bandwidth(one))


def bandwidth(access_point: dict[str, Any]) -> str:
    """Of an access point, with where it is known from."""
    bps, measured = access_point["bandwidth_bps"], access_point["measured"]
    if bps is None:
        return "not known yet" if access_point["rule"] == CapRule.IDEAL else "-"
    said = f"{bps / 1e6:.4g} Mbit/s"
    if measured is None:
        return f"{said}, written in gateway.yaml"
    most_bps = measured["most_bps"]
    to = "up" if most_bps is None else f"to {most_bps / 1e6:.3g}"
    return f"{said} ({measured['least_bps'] / 1e6:.3g} {to}), delivered, {ago(measured['age_s'])} ago"
