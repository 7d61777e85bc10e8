# SPDX-License-Identifier: Apache-2.0
"""A terminal that shares an access point: its sending connections and the shortest round trips that it knows.

                  10 kB acknowledged within a second
        idle ────────────────────────────────────────► live
             ◄────────────────────────────────────────
               less than 2 kB in two reports, and nothing is on its way or it stands still

A shell or a keepalive makes no terminal a sharer. A round trip counts only if its connection sent since the last
report: an idle connection's may belong to another route. The next connection to the same place uses the remembered
round trips. They expire, because routes change and reports may be false. (The kernel remembers a connection's own for
up to 300 s.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from controller.model.text import counted
from controller.policy.caps.flows import Pair, TcpFlow, TcpFlowKey, wrong
from controller.protocol.reports import MOST_SUBFLOWS

BULK_BYTES = 10_000  # per WITHIN_S: seven segments, less than an initial window (RFC 6928)
WITHIN_S = 1.0  # window of BULK_BYTES
TRICKLE_BYTES = 2_000  # a live connection with less in QUIET_S becomes idle
QUIET_S = 0.45  # two report intervals, less some jitter
STALLED_S = 2.0  # longest wait for an acknowledgement that is due
PERIOD_S = 0.25  # report interval while a cap rule is on
MOST_PERIOD_S = 1.0  # longest report interval that is accepted
SILENT_PERIODS = 3  # without a report: the terminal is gone
REMEMBERED_S = 30.0  # a round trip is kept for two to three times this
SETTLED_S = 2.0  # after a change of uplinks, until smoothed round trips are the new path's
DOUBTED_S = 60.0  # how long a doubt is shown
MOST_JOINED = 7  # further subflows that the kernel allows per connection
MOST_PAIRS = 2 * MOST_SUBFLOWS  # remembered pairs
MOST_QUIET = 4 * MOST_SUBFLOWS  # remembered quiet connections

ConnectionKey = TcpFlowKey | int


@dataclass(frozen=True, slots=True)
class Moving:
    """The bytes sent since they were last enough to count as live."""

    since: float
    more_bytes: int = 0
    live: bool = False

    def after(self, more_bytes: int, patience_s: float, now: float) -> Moving:
        total = self.more_bytes + more_bytes
        if total >= (TRICKLE_BYTES if self.live else BULK_BYTES):
            return Moving(now, 0, True)
        if now - self.since < (patience_s if self.live else WITHIN_S):
            return Moving(self.since, total, self.live)
        return Moving(now)


@dataclass(frozen=True, slots=True)
class Least:
    """The shortest round trip in this period of REMEMBERED_S and in the one before."""

    since: float
    us: int
    before_us: int

    @property
    def both_us(self) -> int:
        return min(self.us, self.before_us)

    def after(self, us: int, now: float) -> Least:
        if now - self.since < REMEMBERED_S:
            return Least(self.since, min(self.us, us), self.before_us)
        return Least(now, us, self.us)

    def is_over(self, now: float) -> bool:
        return now - self.since >= 2 * REMEMBERED_S


@dataclass(frozen=True, slots=True)
class SharerPath:
    pair: Pair
    srtt_us: int | None
    moves: bool  # bytes were acknowledged since the previous report
    older: bool = False  # began before the last change of uplinks: its shortest round trip may be stale


@dataclass(frozen=True, slots=True)
class Live:
    """A connection that sends, with the paths of its subflows."""

    paths: tuple[SharerPath, ...]
    joined: bool  # a further subflow of an unknown connection

    @property
    def in_use(self) -> tuple[SharerPath, ...]:
        return tuple(path for path in self.paths if path.moves) or self.paths


@dataclass(frozen=True, slots=True)
class Doubts:
    sentences: tuple[str, ...] = ()  # one sentence per kind
    at: float = 0.0
    total: int = 0  # disbelieved items since the start

    def after(self, found: Mapping[str, int], now: float) -> Doubts:
        if found:
            sentences = tuple(f"{what} ({counted(number, 'times')})" for what, number in found.items())
            return Doubts(sentences, now, self.total + sum(found.values()))
        return self if now - self.at < DOUBTED_S else Doubts(total=self.total)


@dataclass(frozen=True, slots=True)
class Sharer:
    """The state of one terminal."""

    terminal: str
    heard_at: float
    period_s: float = PERIOD_S
    live: tuple[Live, ...] = ()
    moving: Moving = field(default_factory=lambda: Moving(0.0))  # of all connections together
    least: Mapping[Pair, Least] = field(default_factory=dict)
    doubts: Doubts = field(default_factory=Doubts)
    connections: Mapping[ConnectionKey, Moving] = field(default_factory=dict)
    bytes_sent: Mapping[TcpFlowKey, int] = field(default_factory=dict)
    quiet_bytes: Mapping[TcpFlowKey, int] = field(default_factory=dict)  # of connections missing in the last report
    uplinks_key: str = ""  # key of the uplinks of its packets
    uplinks_since: float = float("-inf")
    older: frozenset[TcpFlowKey] = frozenset()  # connections that began before `uplinks_since`
    reporter: str = ""  # the agent that reports it, perhaps with other terminals; empty: its gateway

    @property
    def witness(self) -> str:
        """Return the name of the witness. An agent that reports several terminals is one witness."""
        return self.reporter or self.terminal

    @property
    def active(self) -> bool:
        return self.moving.live or bool(self.live)

    @property
    def live_connections(self) -> int:
        """Return the number of connections that divide the terminal's share.

        Joined subflows do not count, within limits: a connection has at most MOST_JOINED of them, and no two between
        the same addresses.
        """
        joined = sum(one.joined for one in self.live)
        between = Counter(one.paths[0].pair for one in self.live)
        return max(len(self.live) - joined, -(-joined // MOST_JOINED), *between.values(), 0)

    def min_rtt_us(self, pair: Pair) -> int | None:
        least = self.least.get(pair)
        return least.both_us if least else None


def silent(sharer: Sharer, now: float) -> bool:
    return now - sharer.heard_at > SILENT_PERIODS * sharer.period_s


def after_report(
    before: Sharer | None,
    terminal: str,
    addresses: Collection[str],
    flows: Sequence[TcpFlow],
    now: float,
    period_s: float = PERIOD_S,
    cut: bool = False,
    uplinks_key: str = "",
) -> Sharer:
    """Return the terminal's state after a report.

    `addresses` are the terminal's own; flows between them use no air. `cut`: the report had more flows than these.
    `uplinks_key` is the key of its uplinks. A first report, also after a silence, only starts the counters.
    """
    flows = [flow for flow in flows if flow.other_address not in addresses]
    before = before or Sharer(terminal, float("-inf"), uplinks_key=uplinks_key)
    if uplinks_key != before.uplinks_key:
        from_before = frozenset(before.bytes_sent.keys() | before.quiet_bytes.keys())
        before = replace(before, uplinks_key=uplinks_key, uplinks_since=now, least={}, older=from_before)
    begins = silent(before, now)
    doubtful: dict[str, int] = {}
    if cut or len(flows) > MOST_SUBFLOWS:
        doubtful[f"it reports more than {MOST_SUBFLOWS} connections at once"] = 1
    known: dict[TcpFlowKey, TcpFlow] = {}
    for flow in islice(flows, MOST_SUBFLOWS):
        doubt = _doubt(flow, addresses, known, before.bytes_sent)
        if doubt is None:
            known[flow.key] = flow
        else:
            doubtful[doubt] = doubtful.get(doubt, 0) + 1
    more = {key: 0 if begins else flow.bytes_sent - _before(flow, before) for key, flow in known.items()}
    of_connections: dict[ConnectionKey, list[TcpFlow]] = {}
    for flow in known.values():
        of_connections.setdefault(flow.connection, []).append(flow)
    older = before.older if now - before.uplinks_since >= SETTLED_S else frozenset()
    connections = {
        key: _moving(None if begins else before.connections.get(key), each, more, now)
        for key, each in of_connections.items()
    }
    # Disbelieved flows count too: once believed, their old bytes must not look like a burst.
    bytes_sent = {flow.key: flow.bytes_sent for flow in islice(flows, MOST_SUBFLOWS)}
    total = _moving(None if begins else before.moving, known.values(), more, now)
    return Sharer(
        terminal,
        now,
        min(max(period_s, PERIOD_S), MOST_PERIOD_S),
        tuple(_live(each, more, older) for key, each in of_connections.items() if connections[key].live),
        total,
        _least(before.least, (flow for key, flow in known.items() if more[key]), now),
        before.doubts.after(doubtful, now),
        connections,
        bytes_sent,
        _quiet(before, bytes_sent),
        uplinks_key,
        before.uplinks_since,
        before.older,
    )


def _doubt(
    flow: TcpFlow, addresses: Collection[str], known: Mapping[TcpFlowKey, TcpFlow], before: Mapping[TcpFlowKey, int]
) -> str | None:
    if flow.terminal_address not in addresses:
        return "it reports a connection from an address that is not its own"
    what = wrong(flow)
    if what:
        return f"it reports {what}"
    if flow.key in known:
        return "it reports a connection twice"
    if flow.bytes_sent < before.get(flow.key, 0):
        return "it reports fewer bytes than before"
    return None


def _before(flow: TcpFlow, before: Sharer) -> int:
    """Return the bytes known before.

    A gateway drops connections that are quiet for a minute. One that returns with fewer bytes is a new connection with
    the same ports.
    """
    quiet = before.quiet_bytes.get(flow.key, 0)
    return before.bytes_sent.get(flow.key, quiet if quiet <= flow.bytes_sent else 0)


def _quiet(before: Sharer, bytes_sent: Mapping[TcpFlowKey, int]) -> Mapping[TcpFlowKey, int]:
    gone = {key: sent for key, sent in before.bytes_sent.items() if key not in bytes_sent}
    back = before.quiet_bytes.keys() & bytes_sent.keys()
    if not gone and not back:
        return before.quiet_bytes
    quiet = {**before.quiet_bytes, **gone}
    for key in back:
        del quiet[key]
    return dict(islice(quiet.items(), max(0, len(quiet) - MOST_QUIET), None))


def _moving(before: Moving | None, flows: Iterable[TcpFlow], more: Mapping[TcpFlowKey, int], now: float) -> Moving:
    sent, patience_s = 0, QUIET_S
    for flow in flows:
        sent += more[flow.key]
        if flow.waits and flow.srtt_us is not None:  # an acknowledgement that is due proves more than silence
            patience_s = max(patience_s, min(1.5 * flow.srtt_us / 1e6, STALLED_S))
    return (before or Moving(now)).after(sent, patience_s, now)


def _live(flows: Sequence[TcpFlow], more: Mapping[TcpFlowKey, int], older: Collection[TcpFlowKey]) -> Live:
    paths = tuple(SharerPath(flow.pair, flow.srtt_us, more[flow.key] > 0, flow.key in older) for flow in flows)
    return Live(paths, all(flow.joined for flow in flows))


def _least(before: Mapping[Pair, Least], moved: Iterable[TcpFlow], now: float) -> Mapping[Pair, Least]:
    least = {pair: one for pair, one in before.items() if not one.is_over(now)}
    for flow in moved:
        if flow.min_rtt_us is not None:
            old = least.pop(flow.pair, None)  # reinserted below: the newest pair is last
            us = flow.min_rtt_us
            least[flow.pair] = old.after(us, now) if old else Least(now, us, us)
    return dict(islice(least.items(), max(0, len(least) - MOST_PAIRS), None))
