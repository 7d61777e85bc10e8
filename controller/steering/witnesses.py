"""The connections that a terminal's own side reports: its own agent, and its gateway's.

A server knows of a terminal's connections only what it says itself. Its report of one counts where that side reports
the same connection, with both addresses and both ports. Servers that gateway.yaml lists need no such witness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from controller.policy.ways import Home
from controller.reports import Connection, Reported, SubflowKey

KEPT_S = 3.5  # of reports that come each second, and not at the same moments at both ends
AT_RANDOM, TIMES = 16, 8  # a server whose unconfirmed connections are more than these has guessed those that agree


class Witnesses:
    def __init__(self) -> None:
        self._seen: dict[str, dict[SubflowKey, float]] = {}  # by terminal: its end first, and when it was last reported

    def keep(self, terminals: Iterable[str]) -> None:
        """Others are forgotten."""
        self._seen = {name: self._seen.get(name, {}) for name in terminals}

    def report(self, event: Reported, homes: Mapping[str, Home], now: float) -> None:
        """A report of the terminals' own side. `homes`: the addresses of those for whom that agent speaks."""
        keys = [subflow.key for connection in event.connections for subflow in connection.subflows]
        if event.capping is not None:
            keys += [
                (one.terminal_address, one.terminal_port, one.other_address, one.other_port)
                for one in event.capping.passing
            ]
        reported: dict[str, dict[SubflowKey, float]] = {}
        for key in keys:
            home = homes.get(key[0])
            if home is not None:
                reported.setdefault(home.terminal.name, {})[key] = now
        for name, there in reported.items():
            lately = ((key, at) for key, at in self._seen.get(name, {}).items() if now - at <= KEPT_S)
            self._seen[name] = {**dict(lately), **there}

    def confirmed(
        self, connections: Iterable[Connection], homes: Mapping[str, Home], now: float
    ) -> tuple[frozenset[SubflowKey], frozenset[str]]:
        """The subflows of a server's report that the terminals' own side reports too, and the terminals of which it
        reports none such."""
        told: Counter[str] = Counter()
        good: dict[str, list[SubflowKey]] = {}
        for subflow in (each for connection in connections for each in connection.subflows):
            home = homes.get(subflow.remote_address)
            if home is None:
                continue
            name = home.terminal.name
            told[name] += 1
            here, there = subflow.key[:2], subflow.key[2:]
            at = self._seen.get(name, {}).get((*there, *here))
            if at is not None and now - at <= KEPT_S:
                good.setdefault(name, []).append(subflow.key)
        good = {name: keys for name, keys in good.items() if told[name] <= AT_RANDOM + TIMES * len(keys)}
        return frozenset(key for keys in good.values() for key in keys), frozenset(told.keys() - good.keys())
