# SPDX-License-Identifier: Apache-2.0
"""The route to a destination, for `why --relay` and `relay test`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

from cli import Failure
from cli.tables import ago
from controller.policy.bandwidth.rates import rate_text

HTTPS = 443


def resolved(destination: str) -> str:
    try:
        found = socket.getaddrinfo(destination, HTTPS, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Failure(
            f"{destination!r} does not resolve ({reason}): give an address or a known name, without a port"
        ) from None
    return str(found[0][4][0])


def explained(one: dict[str, Any]) -> Iterator[str]:
    choice = one["choice"]
    yield f"from {one['gateway']}, {one['prefix']} (by {one['address']}):"
    if choice is None:
        yield (
            "  no choice is in force: the relay with the shortest set-up time is used; if none is reachable "
            "or all drain, `fallback` applies"
        )
    else:
        alike = "" if one["made"] else ", like all connections"
        yield f"  {choice['method']}: {_how(choice)}{alike}: {choice['reason']}{_rates(choice)}"
    for leg in one["legs"]:
        yield f"  {_leg(leg)}"
    for each in one["otherwise"]:
        yield f"  {each['method']} would choose: {_how(each)}: {each['reason']}"


def _how(choice: dict[str, Any]) -> str:
    return f"by {' and '.join(choice['relays'])}" if choice["relays"] else "directly"


def _rates(choice: dict[str, Any]) -> str:
    predicted, direct = choice["predicted_bps"], choice["direct_bps"]
    if predicted is None or direct is None or not choice["relays"]:
        return ""
    return f"; predicted {rate_text(predicted)}, {predicted / direct:.2f} times the direct path's" if direct else ""


def _leg(leg: dict[str, Any]) -> str:
    way = f"{leg['start']} to {leg['end']}"
    if leg["rtt_ms"] is None:
        return f"{way}: not known: {leg['reason']}"
    routers = f", {len(leg['routers'])} routers" if leg["routers"] else ""
    return f"{way}: {leg['rtt_ms']:.4g} ms{routers}, {ago(leg['age_s'])} ago"
