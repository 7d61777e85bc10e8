# SPDX-License-Identifier: Apache-2.0
"""Return routes: a host must answer from each address over its uplink."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gateway.finding import Finding, State, judged
from gateway.host import HostError, run
from gateway.scene import CheckContext

# documentation addresses, which only default routes reach (RFC 5737, RFC 3849)
ELSEWHERE = {4: "192.0.2.1", 6: "2001:db8::1"}
FIRST_TABLE = 100


def return_routes(context: CheckContext) -> Iterator[Finding]:
    for version in ELSEWHERE:
        ways, tables = _ways_out(version)
        if len(ways) < 2:
            only = next(iter(ways), "none")
            yield Finding(
                f"return routes IPv{version}", State.OK, f"ways out: {only}", "each address over its own link"
            )
            continue
        for dev, gateway in ways.items():
            for address in (own.ip for own in context.links[dev].addresses if own.version == version):
                taken = _way_of(version, str(address))
                table = next(number for number in range(FIRST_TABLE, FIRST_TABLE + 1000) if number not in tables)
                tables.add(table)
                via = f"via {gateway} " if gateway else ""
                line = (
                    f"ip -{version} route replace default {via}dev {dev} table {table} && "
                    f"ip -{version} rule add from {address} lookup {table}"
                )
                expected = f"over {dev}: another provider drops the address as forged"
                yield judged(
                    f"return route {address}", taken == dev, f"leaves over {taken}", expected, line, else_=State.BAD
                )


def _ways_out(version: int) -> tuple[dict[str, str], set[int]]:
    """Return default routes' next hops by interface, and the tables in use."""
    ways: dict[str, str] = {}
    tables: set[int] = set()
    answer = run(("ip", "-json", "-N", f"-{version}", "route", "show", "table", "all")).out
    for route in json.loads(answer or "[]"):
        tables.add(int(route.get("table", 254)))
        if route["dst"] == "default" and route.get("type", "1") in ("1", "unicast"):
            for hop in route.get("nexthops", [route]):
                ways.setdefault(hop["dev"], hop.get("gateway", ""))
    ways.pop("lo", None)
    return ways, tables


def _way_of(version: int, address: str) -> str:
    try:
        answer = run(("ip", "-json", f"-{version}", "route", "get", ELSEWHERE[version], "from", address)).out
    except HostError:
        return "nowhere"
    return str(json.loads(answer)[0]["dev"])
