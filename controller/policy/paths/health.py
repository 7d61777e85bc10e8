# SPDX-License-Identifier: Apache-2.0
"""The health of an uplink for one terminal (unknown, good, lossy or dead), and its throughput.

                  clean                        losing
        unknown ─────────► good ◄──────────────────────► lossy
           ▲                │   (clean for long enough)    │
           │ silent         └───── stalled, port down ─────┤
           │                                               ▼
           └──────── port up, progress, silent ◄───────── dead

Loss is the share of retransmitted segments over a window of reports. A share between the two thresholds changes
nothing, so an uplink at the edge does not flap. Neither does loss that is missing in one report of the window: a
sender that begins overshoots, and loses packets for a tenth of a second or two on the best of paths.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from controller.model.text import counted

# Throughput: a sender with little to send shows nothing of the path. A sender that has filled its congestion window is
# limited by the path. Its rate is what the path carries, with these losses and this congestion control.

LATELY_S = 3.5  # age up to which a report counts as recent
LIMITED_REPORTS = 3
LIMITED_FOR_S = 2.0  # a new sender fills its small window for less time
KNOWN_FOR_S = 600.0  # age up to which a measured limit counts
MOST_KEPT = 64  # reports within LATELY_S, from any number of agents


@dataclass(frozen=True, slots=True)
class DeliverySample:
    """The throughput in one report."""

    at: float
    bps: float
    limited: bool  # by the path


@dataclass(frozen=True, slots=True)
class Throughput:
    reports: tuple[DeliverySample, ...] = ()
    limit_bps: float = 0.0
    limit_at: float | None = None  # None: never measured
    written_bps: float | None = None  # in gateway.yaml

    def delivered_bps(self, now: float) -> float:
        return max((each.bps for each in self.reports if now - each.at < LATELY_S), default=0.0)

    def carries_bps(self, now: float) -> float | None:
        """Return the measured limit of the last KNOWN_FOR_S, else the configured one, else None."""
        seen = self.limit_at is not None and now - self.limit_at < KNOWN_FOR_S
        return self.limit_bps if seen else self.written_bps


UNMEASURED = Throughput()


def throughput_after(throughput: Throughput, bps: float, limited: bool, now: float) -> Throughput:
    lately = [each for each in throughput.reports if now - each.at < LATELY_S]
    reports = (*lately, DeliverySample(now, bps, limited))[-MOST_KEPT:]
    throughput = replace(throughput, reports=reports)
    at_limit = [each for each in reports if each.limited]
    if len(at_limit) < LIMITED_REPORTS or at_limit[-1].at - at_limit[0].at < LIMITED_FOR_S:
        return throughput
    return replace(throughput, limit_bps=max(each.bps for each in at_limit), limit_at=now)


LOSSY_FROM = 0.10  # share of retransmitted segments from which an uplink is lossy
CLEAN_UNTIL = 0.03  # share up to which it is clean
WINDOW = 3  # reports
ENOUGH_SEGMENTS = 50  # in a window, to call it lossy: 5 of them lost are more than bad luck
MENDED_AFTER_S = 5.0  # a lossy uplink is good after this clean time
DEAD_AFTER_MS = 400  # time with data in flight and no acknowledgement; above TCP's first retransmission timeout
SILENT_AFTER_S = 10.0  # without traffic for this time, the health is unknown


class UplinkHealth(StrEnum):
    UNKNOWN = "unknown"
    GOOD = "good"
    LOSSY = "lossy"
    DEAD = "dead"


class Sign(StrEnum):
    """An input of the table below."""

    CLEAN = "clean"
    LOSING = "losing"
    STALLED = "stalled"
    PORT_DOWN = "port down"
    PORT_UP = "port up"
    PROGRESS = "progress"
    SILENT = "silent"


_U, _G, _L, _D = UplinkHealth
AFTER: dict[tuple[UplinkHealth, Sign], UplinkHealth] = {
    (_U, Sign.CLEAN): _G, (_G, Sign.CLEAN): _G, (_L, Sign.CLEAN): _G, (_D, Sign.CLEAN): _G,
    (_U, Sign.LOSING): _L, (_G, Sign.LOSING): _L, (_L, Sign.LOSING): _L, (_D, Sign.LOSING): _L,
    (_U, Sign.STALLED): _D, (_G, Sign.STALLED): _D, (_L, Sign.STALLED): _D, (_D, Sign.STALLED): _D,
    (_U, Sign.PORT_DOWN): _D, (_G, Sign.PORT_DOWN): _D, (_L, Sign.PORT_DOWN): _D, (_D, Sign.PORT_DOWN): _D,
    (_U, Sign.PORT_UP): _U, (_G, Sign.PORT_UP): _G, (_L, Sign.PORT_UP): _L, (_D, Sign.PORT_UP): _U,
    (_U, Sign.PROGRESS): _U, (_G, Sign.PROGRESS): _G, (_L, Sign.PROGRESS): _L, (_D, Sign.PROGRESS): _U,
    (_U, Sign.SILENT): _U, (_G, Sign.SILENT): _U, (_L, Sign.SILENT): _U, (_D, Sign.SILENT): _U,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class UplinkReading:
    """A terminal's packets on one uplink between two reports."""

    segments: int  # sent
    retransmits: int
    acked_bytes: int
    stalled_ms: int  # time with data in flight and no acknowledgement; 0: data flows, or none is in flight
    interval_ms: int = 1000  # since the report before
    limited: bool = False  # a sender has filled its congestion window, so the path limits it
    unslowed_bytes: int = 0  # acknowledged bytes of senders that losses do not slow

    @property
    def loss(self) -> float:
        return self.retransmits / max(1, self.segments)

    @property
    def delivered_bps(self) -> float:
        return self.acked_bytes * 8000 / max(1, self.interval_ms)


class SilentUplink(NamedTuple):
    """An uplink that delivers nothing at one of its ends."""

    reason: str
    reporter: str | None  # the agent; None: the switch's counters


@dataclass(frozen=True, slots=True)
class UplinkPath:
    """Immutable state of one uplink for one terminal."""

    health: UplinkHealth = UplinkHealth.UNKNOWN
    reason: str = "no report yet"
    since: float = 0.0  # this health
    port_up: bool = True
    clean_since: float | None = None  # while lossy
    heard_at: float = 0.0  # the last report with traffic
    window: tuple[UplinkReading, ...] = ()

    silent: str | None = None  # why no copies seem to arrive; None: they do, or unknown
    before: UplinkHealth = UplinkHealth.UNKNOWN  # the previous health
    throughput: Throughput = UNMEASURED

    @property
    def loss(self) -> float:
        return sum(each.retransmits for each in self.window) / max(1, self.segments)

    @property
    def segments(self) -> int:
        return sum(each.segments for each in self.window)

    @property
    def loses(self) -> bool:
        return self.health is UplinkHealth.LOSSY or (self.segments >= ENOUGH_SEGMENTS and self.loss > CLEAN_UNTIL)

    @property
    def slows_nobody(self) -> bool:
        """Return whether most of the delivered bytes come from senders that losses do not slow, like BBR."""
        return 2 * sum(each.unslowed_bytes for each in self.window) > sum(each.acked_bytes for each in self.window)

    @property
    def keeps_losing(self) -> bool:
        return len(self.window) == WINDOW and all(each.loss > CLEAN_UNTIL for each in self.window)


def port_seen(path: UplinkPath, up: bool, now: float) -> UplinkPath:
    if up == path.port_up:
        return path
    sign, reason = (Sign.PORT_UP, "its port is up again") if up else (Sign.PORT_DOWN, "its port is down")
    return _after(replace(path, port_up=up, window=()), sign, reason, now)


def silence(path: UplinkPath, reason: str | None, now: float) -> UplinkPath:
    """Return the state for a report on arriving copies. `reason` is None if they arrive, or nothing is known."""
    changed = (reason is None) != (path.silent is None)
    path = replace(path, silent=reason)
    if not path.port_up or not changed:
        return path
    path = replace(path, heard_at=now, window=(), clean_since=None)
    if reason is None:
        return _after(path, Sign.PROGRESS, "packets arrive again", now)
    return _after(path, Sign.STALLED, reason, now)


def reported(path: UplinkPath, reading: UplinkReading, now: float) -> UplinkPath:
    if not path.port_up:
        return path
    if reading.acked_bytes:
        measured = throughput_after(path.throughput, reading.delivered_bps, reading.limited, now)
        path = replace(path, throughput=measured)
    if reading.stalled_ms >= DEAD_AFTER_MS:
        stalled = replace(path, heard_at=now, window=(), clean_since=None)
        waited = f"no acknowledgement for {reading.stalled_ms} ms, data in flight; dead after {DEAD_AFTER_MS} ms"
        return _after(stalled, Sign.STALLED, waited, now)
    if not reading.segments and not reading.acked_bytes:
        return path
    if path.health is UplinkHealth.DEAD:
        if not reading.acked_bytes:  # to send into it is no sign of life
            return path
        path = _after(path, Sign.PROGRESS, "", now)
    path = replace(path, heard_at=now)
    if not reading.segments:  # the uplink delivers; its loss is unknown
        return path if path.health is not UplinkHealth.UNKNOWN else replace(path, reason=_delivers(reading))
    path = replace(path, window=(*path.window, reading)[-WINDOW:])
    if path.keeps_losing and path.loss >= LOSSY_FROM and path.segments >= ENOUGH_SEGMENTS:
        return _after(replace(path, clean_since=None), Sign.LOSING, f"{_lost(path)}; lossy from {LOSSY_FROM:.0%}", now)
    if path.loss > CLEAN_UNTIL:
        return replace(path, clean_since=None, reason=f"{_lost(path)}; {_undecided(path)}")
    clean_since = now if path.clean_since is None else path.clean_since
    path = replace(path, clean_since=clean_since)
    reason = f"{_lost(path)}; good up to {CLEAN_UNTIL:.0%}"
    if path.health is UplinkHealth.LOSSY and now - clean_since < MENDED_AFTER_S:
        lasted = f"for {MENDED_AFTER_S:.0f} s; so far {now - clean_since:.0f} s"
        return replace(path, reason=f"{reason} {lasted}")
    return _after(path, Sign.CLEAN, reason, now)


def _lost(path: UplinkPath) -> str:
    segments, reports = counted(path.segments, "segments"), counted(len(path.window), "reports")
    return f"{path.loss:.0%} of {segments} retransmitted in {reports}"


def _undecided(path: UplinkPath) -> str:
    if path.loss < LOSSY_FROM:
        return f"from {CLEAN_UNTIL:.0%} to {LOSSY_FROM:.0%} the state does not change"
    if path.segments < ENOUGH_SEGMENTS:
        return f"fewer than {ENOUGH_SEGMENTS} are too few to call it lossy"
    return f"lossy once {WINDOW} reports each show more than {CLEAN_UNTIL:.0%}"


def _delivers(reading: UplinkReading) -> str:
    return (
        f"{counted(reading.acked_bytes, 'bytes')} acknowledged in the last report, so it is not dead; good up to "
        f"{CLEAN_UNTIL:.0%}, lossy from {LOSSY_FROM:.0%} of its own segments retransmitted, but no segment was "
        "sent over it alone"
    )


def fired(path: UplinkPath, stalled_ms: int, limits: str, now: float) -> UplinkPath:
    if not path.port_up:
        return path
    left = replace(path, heard_at=now, window=(), clean_since=None)
    reason = f"an armed failover fired after {stalled_ms} ms with data in flight and no progress; {limits}"
    return _after(left, Sign.STALLED, reason, now)


def unheard(path: UplinkPath, reason: str, now: float) -> UplinkPath:
    """Return the state without reporting agents: only the port's state remains known."""
    if not path.port_up or (path.health is UplinkHealth.UNKNOWN and not path.window):
        return path
    return _after(replace(path, window=(), clean_since=None), Sign.SILENT, reason, now)


def passed(path: UplinkPath, now: float) -> UplinkPath:
    """Return the state as time passes: an uplink without traffic becomes unknown, unless its port is down."""
    if path.silent is not None:
        return path
    if path.health is not UplinkHealth.UNKNOWN and path.port_up and now - path.heard_at >= SILENT_AFTER_S:
        silent = replace(path, window=(), clean_since=None)
        nothing = "acknowledged" if path.health is UplinkHealth.DEAD else "sent"
        reason = f"nothing was {nothing} over it for {now - path.heard_at:.0f} s; before, it was {path.health}"
        return _after(silent, Sign.SILENT, f"{reason}; unknown after {SILENT_AFTER_S:.0f} s", now)
    return path


def _after(path: UplinkPath, sign: Sign, reason: str, now: float) -> UplinkPath:
    health = AFTER[path.health, sign]
    if health is path.health:
        return replace(path, reason=reason)
    return replace(path, health=health, reason=reason, since=now, before=path.health)
