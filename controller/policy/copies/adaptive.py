# SPDX-License-Identifier: Apache-2.0
"""The choice between copies and one path for a terminal in mode auto, by the health of its active uplink.

    copies ──(it was clean for a while, or one path is tried)──► one path
       ▲                                                            │
       └──(it loses, or is late, for most of a second; or is dead)──┘

Copies hide the losses that they repair: another path delivers the packet, and no sender retransmits. So the weight of
evidence depends on the state:

                                            on one path      with copies
    senders   retransmissions               begins them      keeps them: that was lost on every path
    copies    arrivals at either end        nothing          keeps them, or lets them end
    probes    packets of their own          begins them      keeps them, or lets them end
    tunnel    its packets at both ends      begins them      keeps them

Without evidence from peer sites and probes one path is tried after a pause, and given up at the first trouble. Each
failed trial doubles the next pause. Missing evidence decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import sqrt

from controller.model.text import counted
from controller.policy.copies.tallies import CLEAN_LATE, CLEAN_LOSS, FEW, NOTHING, Evidence, LossCounts, Source, total
from controller.policy.paths.health import DEAD_AFTER_MS

WINDOW_S = 1.0  # recent evidence
WINDOW_PACKETS = 30  # fewest per source: the window grows until it has them
WINDOW_AT_MOST_S = 60.0  # oldest evidence in the window
LASTS_S = 0.6  # trouble must outlast the losses of a sender's slow start: 3 reports at 4 Hz
PROBED_LASTS_S = 0.4  # the same for probes, which fill no queue: 2 reports
LOSING_FROM = 0.02  # share of lost packets that begins copies
LATE_FROM = 0.10  # the same for late packets
DOUBT = 0.7  # margin in sqrt(count): at 0, 0.5 % loss often begins copies; at 1, 5 % loss waits longer
ENOUGH = 300  # packets of a clean path: at 5 % loss, at most 3 of them are lost once in 5000 runs
CLEAN_S = 10.0  # measured clean time until copies end
TRY_S = 30.0  # unmeasured clean time until one path is tried
PAUSE_AT_MOST_S = 300.0  # limit of the pauses that double with each failed trial
KEPT_S = 30.0  # after this time on one path, the end of copies was right
MEASURED_S = 3.0  # age up to which a measurement counts
MOST_EVIDENCE = 128  # pieces of evidence in a window

SEEN_BY = {
    Source.SENDERS: "as senders report",
    Source.COPIES: "as counted where copies arrive",
    Source.PROBES: "as probes show",
    Source.TUNNEL: "as counted at both ends of the tunnel",
}
CHANCE = ", beyond chance"


@dataclass(frozen=True, slots=True)
class CopyDecision:
    terminal: str
    copies: bool
    reason: str
    at: float  # of the core's clock
    barred: bool = False  # copies are worth it, but barred
    reporters: tuple[str, ...] = ()  # agents


@dataclass(frozen=True, slots=True)
class Watch:
    """The state of one terminal."""

    active: str
    since: float  # time of the last decision
    copies: bool = True
    reason: str = "no measurement yet"
    relapses: int = 0  # ends of copies in a row that were soon reversed
    ended_clean: bool = False  # copies last ended for a clean path, not because they were barred
    evidence: tuple[tuple[float, Evidence], ...] = ()  # each with its time
    dead: str | None = None  # why the active uplink is dead, by other signs
    evidence_at: float = 0.0
    clean_since: float | None = None
    measured: LossCounts = NOTHING  # by peer sites and probes, since `clean_since`
    measured_at: float | None = None
    sent: LossCounts = NOTHING  # by senders, since `clean_since`


def after_evidence(watch: Watch, evidence: Evidence, now: float) -> Watch:
    counts = evidence.counts
    if not (counts.packets or counts.lost or evidence.stalled_ms >= DEAD_AFTER_MS):
        return watch
    if evidence.source is Source.COPIES and not watch.copies:
        return watch  # copies in flight when copies ended
    if now < watch.evidence_at:
        watch = _without_evidence(
            replace(watch, since=min(watch.since, now))
        )  # another clock: earlier measurements are void
    if now - watch.evidence_at > MEASURED_S:
        watch = _restart_clean_time(watch)
    recent = (*_within(watch, now), (now, evidence))[-MOST_EVIDENCE:]
    alone = not watch.copies or evidence.source is not Source.SENDERS  # with copies, another path may have delivered
    lives = alone and counts.packets > counts.lost and not evidence.stalled_ms
    watch = replace(watch, evidence=recent, evidence_at=now, dead=None if lives else watch.dead)
    return _count_with_copies(watch, evidence, now) if watch.copies else replace(watch, reason=_on_one_path(watch, now))


def _count_with_copies(watch: Watch, evidence: Evidence, now: float) -> Watch:
    """Return the state after evidence while copies are on. Trouble restarts the clean time."""
    trouble = _trouble(watch, now)
    if evidence.source is Source.SENDERS:
        watch = replace(watch, sent=watch.sent.plus(evidence.counts))
    else:
        watch = replace(watch, measured=watch.measured.plus(evidence.counts), measured_at=now)
    spoilt = next((_share(run) + _clean_limits() for run in (watch.measured, watch.sent) if run.spoilt), None)
    if trouble is not None or spoilt is not None:
        return replace(_restart_clean_time(watch), reason=trouble or f"{watch.active}: {spoilt}")
    clean_since = now if watch.clean_since is None else watch.clean_since
    watch = replace(watch, clean_since=clean_since)
    return replace(watch, reason=_until_clean(watch, clean_since, now))


def dead(watch: Watch, reason: str, now: float) -> Watch:
    """Return the state after other signs of a dead active uplink: its port, an armed failover, a report."""
    return replace(_without_evidence(watch), dead=reason, reason=f"{watch.active} is dead ({reason})", evidence_at=now)


def revived(watch: Watch) -> Watch:
    return (
        replace(_without_evidence(watch), reason=f"{watch.active} is no longer considered dead")
        if watch.dead
        else watch
    )


def moved(watch: Watch, active: str, now: float) -> Watch:
    """Return the state after a move. The old uplink's evidence is void; the decision on copies stays."""
    if active == watch.active:
        return watch
    reason = f"unchanged since {watch.active}: no measurement of {active} yet"
    return replace(_without_evidence(watch), active=active, reason=reason, relapses=0, evidence_at=now)


def decide(terminal: str, watch: Watch, now: float, barred: str | None = None) -> CopyDecision | None:
    """Return a change, or None. `barred` is the reason why copies are not allowed."""
    if barred is not None:
        return CopyDecision(terminal, False, barred, now, barred=True) if watch.copies else None
    if not watch.copies:
        trouble = _trouble(watch, now)
        return CopyDecision(terminal, True, trouble, now) if trouble is not None else None
    if watch.clean_since is None or now - watch.evidence_at > MEASURED_S:
        return None
    run, lasted_s = _clean_counts(watch, now), now - watch.clean_since
    if run.packets < ENOUGH or not run.clean or lasted_s < _pause(watch, now):
        return None
    reason = f"{watch.active}: {_share(run)} in {lasted_s:.0f} s{_clean_limits()}"
    if not _is_measured(watch, now):
        reason += "; the loss of a single path cannot be measured while packets are copied, so one path is tried"
    return CopyDecision(terminal, False, reason, now)


def unheard(terminal: str, watch: Watch, why: str, now: float) -> CopyDecision | None:
    """Return copies if nothing would report losses of the active uplink any more. None: no change."""
    reason = f"{why}, and losses on a single path would go unnoticed"
    return None if watch.copies else CopyDecision(terminal, True, reason, now)


def decided(watch: Watch, decision: CopyDecision) -> Watch:
    relapses = watch.relapses
    if decision.copies:
        relapses = relapses + 1 if watch.ended_clean and decision.at - watch.since < KEPT_S else 0
    return replace(
        _without_evidence(watch),
        copies=decision.copies,
        reason=decision.reason,
        since=decision.at,
        relapses=relapses,
        ended_clean=not (decision.copies or decision.barred),
    )


def _within(watch: Watch, now: float) -> tuple[tuple[float, Evidence], ...]:
    found, packets = [], dict.fromkeys(Source, 0)
    for at, each in reversed(watch.evidence):
        is_wanted = now - at < WINDOW_S or packets[each.source] < WINDOW_PACKETS
        if is_wanted and 0 <= now - at < WINDOW_AT_MOST_S:
            found.append((at, each))
            packets[each.source] += each.counts.packets
    return tuple(reversed(found))


def _trouble(watch: Watch, now: float) -> str | None:
    """Return why copies are worth their bytes, or None."""
    if watch.dead is not None:
        return f"{watch.active} is dead ({watch.dead})"
    heard = _within(watch, now)
    stalled_ms = max((each.stalled_ms for _, each in heard), default=0)
    if stalled_ms >= DEAD_AFTER_MS:
        return f"{watch.active}: no acknowledgement for {stalled_ms} ms, data in flight; dead after {DEAD_AFTER_MS} ms"
    bad = [(at, each) for at, each in heard if not each.counts.clean]
    if not bad or bad[-1][0] - min(at - each.lasted_s for at, each in bad) < _lasts_s(each for _, each in bad):
        return None
    since = [each for at, each in heard if at >= bad[0][0]]  # heavy traffic before the first loss would lower its share
    for source in Source:
        counts = total(each.counts for each in since if each.source is source)
        if is_losing(counts):
            return (
                f"{watch.active}: {_share(counts)}, {SEEN_BY[source]}; copies start from {LOSING_FROM:.0%} lost{CHANCE}"
            )
        if _exceeds(counts.late, counts.packets, LATE_FROM):
            return (
                f"{watch.active}: {_share(counts)}, {SEEN_BY[source]}; copies start from {LATE_FROM:.0%} late{CHANCE}"
            )
    return None


def is_losing(counts: LossCounts) -> bool:
    return _exceeds(counts.lost, counts.packets, LOSING_FROM)


def _lasts_s(bad: Iterable[Evidence]) -> float:
    return PROBED_LASTS_S if all(each.source is Source.PROBES for each in bad) else LASTS_S


def _exceeds(count: int, packets: int, share: float) -> bool:
    """Return whether a count exceeds a share by more than chance."""
    return count >= FEW and count - DOUBT * sqrt(count) >= share * packets


def _without_evidence(watch: Watch) -> Watch:
    return replace(_restart_clean_time(watch), evidence=(), dead=None, measured_at=None)


def _restart_clean_time(watch: Watch) -> Watch:
    return replace(watch, clean_since=None, measured=NOTHING, sent=NOTHING)


def _is_measured(watch: Watch, now: float) -> bool:
    return watch.measured_at is not None and now - watch.measured_at <= MEASURED_S


def _clean_counts(watch: Watch, now: float) -> LossCounts:
    """Return the counts that decide: measured ones if they are recent, otherwise the senders'."""
    return watch.measured if _is_measured(watch, now) else watch.sent


def _pause(watch: Watch, now: float) -> float:
    first_s = CLEAN_S if _is_measured(watch, now) else TRY_S
    return min(first_s * 2.0 ** min(watch.relapses, 10), PAUSE_AT_MOST_S)


# Reasons for `bicast why`


def _share(counts: LossCounts) -> str:
    lost, late = min(max(counts.loss, 0.0), 1.0), min(counts.tail, 1.0)
    return f"{lost:.1%} of {counted(counts.packets, 'packets')} lost, {late:.1%} late"


def _clean_limits() -> str:
    return f"; clean up to {CLEAN_LOSS:.0%} and {CLEAN_LATE:.0%}"


def _on_one_path(watch: Watch, now: float) -> str:
    heard = total(each.counts for _, each in _within(watch, now))
    return f"{watch.active}: {_share(heard)}; copies start from {LOSING_FROM:.0%} lost or {LATE_FROM:.0%} late{CHANCE}"


def _until_clean(watch: Watch, since: float, now: float) -> str:
    run, over_s = _clean_counts(watch, now), now - since
    ends = "one path" if _is_measured(watch, now) else "one path is tried"
    least = f"for {_pause(watch, now):.0f} s and {ENOUGH} packets; so far {over_s:.0f} s"
    return f"{watch.active}: {_share(run)}{_clean_limits()}; {ends} once this has lasted {least}"
