# SPDX-License-Identifier: Apache-2.0
"""The dead uplinks of a site whose ports are up: packets leave and none return, and active questions decide.

    calm ──(packets leave, hardly any return)──► suspect ──(silent here, answered elsewhere)──► dead
      ▲                                             │                                             │
      └────── answered, or packets return ──────────┴────── answered three times in a row ────────┘

The counters of a port raise a suspicion and prove nothing: a terminal may only send, and a server may ignore it. So a
suspect uplink is asked: an ARP request or solicitation to its next hop, and an echo request to each address beyond it
that is known. The other uplinks are asked the same. The uplink is dead only if they answer and it does not. Without
answers over any uplink, nothing is concluded.

Every value is immutable, and the time is an argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

# Suspicion, by the counters of a port without our own questions and their answers

WINDOW_S = 1.0  # short window over which counters are compared
LONG_WINDOW_S = 3.0  # long window: a stalled TCP connection sends few packets
LEAST_SENT = 3  # packets per window: a stalled TCP connection retransmits after 0.2, 0.6 and 1.4 s
NOISE_PER_S = 2.0  # received packets that may be broadcasts, and no return traffic
RETURN_SHARE = 0.2  # received packets per sent one; 90 % loss leaves 0.1 of a call
CLOCK_SLACK_S = 0.05  # tolerance for counters that are read early or late


ASK_EVERY_S = 0.2  # while suspect
ASK_DEAD_EVERY_S = 1.0  # while this uplink is dead
ASK_OTHERS_EVERY_S = 10.0  # while another uplink is dead: does the far address still answer?
ASK_UNKNOWN_EVERY_S = 30.0  # until the far address has answered once over an uplink that works
LOST_AFTER_S = 0.4  # or twice the last round trip
ENOUGH_LOST = 4  # questions lost, with none answered
ENOUGH_ASKED = 5  # questions settled, with at most ANSWERED_SHARE answered
ANSWERED_SHARE = 0.2
OTHERS_SHARE = 0.75  # answered share that proves another uplink to work
ENOUGH_ANSWERED = 2
LAST_JUDGED = 8  # the latest settled questions count
MOST_ASKED = 16  # questions per suspicion, which then ends undecided
REST_S = 2.0  # until the next suspicion
BACK_AFTER = 3  # answered questions in a row revive an uplink
KEPT_FOR_S = 60.0  # age up to which questions are kept

RETURNS_NOTHING = "no packets return over it"


@dataclass(frozen=True, slots=True)
class Counts:
    """Packet counters of one port, and the controller's questions and answers among them."""

    received: int
    sent: int
    own_received: int
    own_sent: int
    at: float

    def since(self, before: Counts) -> tuple[int, int, float]:
        """Return others' packets sent and received, and the time. Questions may be counted before they leave."""
        sent = self.sent - before.sent - (self.own_sent - before.own_sent)
        received = self.received - before.received - (self.own_received - before.own_received)
        return max(0, sent), max(0, received), self.at - before.at


@dataclass(frozen=True, slots=True)
class Question:
    """One question to the next hop, and to the addresses beyond it if there are any."""

    number: int
    at: float
    far: bool  # addresses beyond the next hop are asked too
    near_at: float | None = None
    far_at: float | None = None

    def answered(self, far: bool) -> bool:
        return (self.far_at if far else self.near_at) is not None


@dataclass(frozen=True, slots=True)
class AnswerCounts:
    answered: int
    lost: int

    @property
    def judged(self) -> int:
        return self.answered + self.lost

    @property
    def fails(self) -> bool:
        if not self.answered:
            return self.lost >= ENOUGH_LOST
        return self.judged >= ENOUGH_ASKED and self.answered <= ANSWERED_SHARE * self.judged

    @property
    def works(self) -> bool:
        return self.answered >= ENOUGH_ANSWERED and self.answered >= OTHERS_SHARE * self.judged

    def __str__(self) -> str:
        return f"{self.answered} of {self.judged} questions"


@dataclass(frozen=True, slots=True)
class UplinkReach:
    targets: tuple[str, ...] = ()  # addresses beyond the next hop
    counts: tuple[Counts, ...] = ()  # of the last LONG_WINDOW_S
    own_sent: int = 0  # questions
    own_received: int = 0  # their answers
    questions: tuple[Question, ...] = ()
    near_known: bool = False  # the next hop has answered since the switch connected
    far_known: bool = False  # an address beyond it has answered since then
    returned: bool = False
    rtt_s: float = 0.0  # of the last far answer
    suspect_since: float | None = None
    evidence: str = ""  # of the suspicion, for people
    rests_until: float = 0.0
    dead: str | None = None  # the reason; None: alive
    dead_since: float = 0.0
    needs_far: bool = False  # only far answers end this death
    doubt: str | None = None  # why no conclusion was drawn

    @property
    def busy(self) -> bool:
        """Return whether packets leave by this uplink, beside the controller's own."""
        return bool(self.counts) and self.counts[-1].since(self.counts[0])[0] >= LEAST_SENT


Reach = Mapping[str, UplinkReach]  # of one site, by uplink


def counted(one: UplinkReach, received: int, sent: int, now: float) -> UplinkReach:
    new = Counts(received, sent, one.own_received, one.own_sent, now)
    if one.counts and (received < one.counts[-1].received or sent < one.counts[-1].sent):
        return replace(one, counts=(new,), suspect_since=None)  # the switch counts from 0 again
    kept = tuple(each for each in one.counts if now - each.at <= LONG_WINDOW_S + CLOCK_SLACK_S)
    one = replace(one, counts=(*kept, new))
    windows = tuple(_windows(one.counts, now))
    if windows and _returns(*windows[0]):
        return replace(one, suspect_since=None, doubt=None, returned=True)
    for left, came, over_s in windows:
        if left >= LEAST_SENT and not _returns(left, came, over_s):
            evidence = f"{left} packets left over it in {over_s:.0f} s and {came} returned"
            begins = one.suspect_since is None and one.dead is None and now >= one.rests_until
            return replace(one, evidence=evidence, suspect_since=now if begins else one.suspect_since)
    return one


def _windows(counts: tuple[Counts, ...], now: float) -> Iterator[tuple[int, int, float]]:
    old = [each for each in counts if now - each.at >= WINDOW_S - CLOCK_SLACK_S]
    for first in dict.fromkeys((old[-1], old[0]) if old else ()):
        yield counts[-1].since(first)


def _returns(sent: int, received: int, over_s: float) -> bool:
    return received > max(NOISE_PER_S * over_s, RETURN_SHARE * sent)


def question_sent(one: UplinkReach, number: int, packets: int, far: bool, now: float) -> UplinkReach:
    kept = tuple(each for each in one.questions if now - each.at <= KEPT_FOR_S)
    return replace(one, questions=(*kept, Question(number, now, far)), own_sent=one.own_sent + packets)


def near_question_sent(one: UplinkReach) -> UplinkReach:
    return replace(one, own_sent=one.own_sent + 1)


def near_answered(one: UplinkReach, now: float) -> UplinkReach:
    """Return the state after the next hop answered. ARP has no numbers: the last question counts as answered."""
    questions = one.questions
    if questions and not questions[-1].answered(far=False):
        questions = (*questions[:-1], replace(questions[-1], near_at=now))
    return replace(one, questions=questions, near_known=True, own_received=one.own_received + 1)


def far_answered(one: UplinkReach, number: int, now: float) -> UplinkReach:
    found = next((each for each in one.questions if each.number == number and each.far), None)
    if found is None:
        return one
    one = replace(one, own_received=one.own_received + 1)
    if found.far_at is not None:
        return one
    questions = tuple(replace(each, far_at=now) if each is found else each for each in one.questions)
    return replace(one, questions=questions, far_known=True, rtt_s=now - found.at)


def due(reach: Reach, now: float) -> tuple[str, ...]:
    if len(reach) < 2:
        return ()
    return tuple(name for name, one in reach.items() if _is_due(name, one, reach, now))


def _is_due(name: str, one: UplinkReach, reach: Reach, now: float) -> bool:
    last = one.questions[-1].at if one.questions else None
    since_s = float("inf") if last is None else now - last + CLOCK_SLACK_S
    if one.suspect_since is not None and _asked_since(one, one.suspect_since) < MOST_ASKED:
        return since_s >= ASK_EVERY_S
    others = [each for other, each in reach.items() if other != name]
    if any(each.suspect_since is not None and _waits(each, each.suspect_since, now) for each in others):
        return since_s >= ASK_EVERY_S
    if one.dead is not None:
        return since_s >= ASK_DEAD_EVERY_S
    if any(each.dead is not None for each in others) and since_s >= ASK_OTHERS_EVERY_S:
        return True
    return bool(one.targets) and one.returned and not one.far_known and since_s >= ASK_UNKNOWN_EVERY_S


def _asked_since(one: UplinkReach, since: float) -> int:
    return sum(each.at >= since for each in one.questions)


def _waits(one: UplinkReach, since: float, now: float) -> bool:
    """Return whether an answer is late. Only then are the other uplinks asked, because that may cost money."""
    late = (each for each in one.questions if each.at >= since and now - each.at + CLOCK_SLACK_S >= ASK_EVERY_S)
    return not all(each.answered(bool(one.targets)) for each in late)


def judged(reach: Reach, now: float) -> dict[str, UplinkReach]:
    return {name: _judged(name, one, reach, now) for name, one in reach.items()}


def _judged(name: str, one: UplinkReach, reach: Reach, now: float) -> UplinkReach:
    if one.dead is not None:
        return _revived(name, one, reach, now)
    since = one.suspect_since
    if since is None:
        return one
    near, far = _answer_counts(one, False, since, now), _answer_counts(one, True, since, now)
    seen = far if one.targets else near
    if seen.answered >= ENOUGH_ANSWERED and not seen.lost:
        return _rests(one, None if one.targets else f"{one.evidence}, but its next hop answers; {NO_TARGETS}", now)
    others = {other: each for other, each in reach.items() if other != name and each.dead is None}
    if far.fails and (one.far_known or not one.returned) and (there := _works(others, True, since, now)):
        reason = f"{_named(one)} answered {far} over it, and {there[1]} over {there[0]}"
        return _dies(one, reason, True, now)
    if near.fails and not far.answered and one.near_known and (there := _works(others, False, since, now)):
        reason = f"its next hop answered {near}, and the next hop of {there[0]} answered {there[1]}"
        return _dies(one, reason, one.far_known, now)
    clear = seen.fails or seen.works or _asked_since(one, since) >= MOST_ASKED
    if seen.judged < LAST_JUDGED or not clear:
        return one
    if not seen.fails:
        return _rests(one, None, now)  # the uplink answers, but not always
    compared = "no other uplink does better"
    if there := _works(others, bool(one.targets), since, now):
        compared = f"it never answered there before, and answered {there[1]} over {there[0]}"
    return _rests(one, f"{one.evidence}, but {_named(one)} answered {seen}, and {compared}; {UNDECIDED}", now)


UNDECIDED = "so no conclusion is drawn"
NO_TARGETS = f"gateway.yaml names no address beyond it to probe (`reach`), {UNDECIDED}"


def _named(one: UplinkReach) -> str:
    return " or ".join(one.targets) or "its next hop"


def _answer_counts(one: UplinkReach, far: bool, since: float, now: float) -> AnswerCounts:
    settled = list(_settled(one, far, since, now))[-LAST_JUDGED:]
    return AnswerCounts(sum(settled), len(settled) - sum(settled))


def _settled(one: UplinkReach, far: bool, since: float, now: float) -> Iterator[bool]:
    for each in one.questions:
        if each.at >= since and each.far >= far and (each.answered(far) or _is_lost(each, one, far, now)):
            yield each.answered(far)


def _is_lost(question: Question, one: UplinkReach, far: bool, now: float) -> bool:
    return not question.answered(far) and now - question.at >= max(LOST_AFTER_S, 2 * one.rtt_s if far else 0.0)


def _works(others: Reach, far: bool, since: float, now: float) -> tuple[str, AnswerCounts] | None:
    """Return another uplink over which answers arrive, or None."""
    found = ((name, _answer_counts(each, far, since, now)) for name, each in others.items())
    return next(((name, there) for name, there in found if there.works), None)


def _dies(one: UplinkReach, reason: str, needs_far: bool, now: float) -> UplinkReach:
    dead = f"{RETURNS_NOTHING}: {one.evidence}; {reason}"
    return replace(one, dead=dead, dead_since=now, needs_far=needs_far, suspect_since=None, doubt=None)


def _rests(one: UplinkReach, doubt: str | None, now: float) -> UplinkReach:
    return replace(one, suspect_since=None, rests_until=now + REST_S, doubt=doubt)


def _revived(name: str, one: UplinkReach, reach: Reach, now: float) -> UplinkReach:
    far, since = one.needs_far, one.dead_since
    if _last_are(one, True, far, since, now):
        return replace(_rests(one, None, now), dead=None)
    if far and all(_last_are(each, False, far, since, now) for each in reach.values()):
        doubt = f"{_named(one)} no longer answers over any uplink, {UNDECIDED}"
        return replace(_rests(one, doubt, now), dead=None)
    return one


def _last_are(one: UplinkReach, answered: bool, far: bool, since: float, now: float) -> bool:
    settled = list(_settled(one, far, since, now))
    return len(settled) >= BACK_AFTER and all(each is answered for each in settled[-BACK_AFTER:])
