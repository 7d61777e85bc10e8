# SPDX-License-Identifier: Apache-2.0
"""The answer to `why` in sentences, for the command line and the page."""

from __future__ import annotations

import time
from collections.abc import Iterator

from controller.features.steering.logbook import UNORDERED, By
from controller.model.config import Mode
from controller.model.redundancy import BY_MODE
from controller.model.text import LONGEST, counted, shortened
from controller.readout.snapshot import (
    ActiveBy,
    ArmedFailoverView,
    CopyingView,
    CourseView,
    DecisionView,
    OutcomeView,
    SubflowsView,
)

CHOSEN = {
    ActiveBy.PEOPLE: "a person chose it",
    ActiveBy.POLICIES: "policies chose it",
    ActiveBy.DEFAULT: "its default",
}
ACTS = {Mode.BICAST: "with copies", Mode.SINGLE: "on one path", Mode.OFF: "without the controller's help"}
WHO = {By.PEOPLE: "somebody", By.POLICY: "policies", By.FAILOVER: "an armed failover"}
STATES = {True: "", False: " (not done)", None: " (not confirmed yet)"}


def paragraphs(course: CourseView) -> tuple[str, ...]:
    """Return the terminal's state, the health of its uplinks, then its decisions, newest first."""
    health = (f"{one.uplink} is {one.health} since {clock(one.since)}: {one.reason}" for one in course.uplinks)
    decisions = ("\n".join(_decision(decision)) for decision in course.decisions)
    return ("\n".join(_state(course)), "\n".join(health), *decisions)


def _state(course: CourseView) -> Iterator[str]:
    yield f"{course.terminal} is on {course.active_uplink}: {CHOSEN[course.active_by]}"
    yield _copying(course.copying)
    yield from _copied(course.copying)
    movers = ", ".join(course.movers)
    yield f"its connections are moved by {movers}" if movers else f"its connections are not moved: {course.unmoved}"
    for end, there in (("own", course.own_end), ("other", course.other_end)):
        agents = ", ".join(there.agents)
        yield f"its {end} end is reported by {agents or 'nobody'}{'' if agents else f': {there.nobody}'}"
    yield from _subflows(course.subflows)
    for one in course.armed_failovers:
        yield _failover(one)


def _subflows(subflows: tuple[SubflowsView, ...]) -> Iterator[str]:
    for agent in dict.fromkeys(each.agent for each in subflows):
        own = [each for each in subflows if each.agent == agent]
        yield f"{counted(own[0].connections, 'MPTCP connections')} at {agent}: {'; '.join(map(_on_uplink, own))}"


def _on_uplink(one: SubflowsView) -> str:
    there = ((one.active, "active"), (one.backup, "backup"))
    flags = " and ".join(f"{number} {flag}" for number, flag in there if number)
    rtt = f", round trip {one.srtt_us / 1000:.1f} ms" if one.srtt_us is not None else ""
    return f"{flags} on {one.uplink}{rtt}"


def _copying(one: CopyingView) -> str:
    since = f" since {clock(one.since)}" if one.since is not None else ""
    return f"it is in mode {one.mode}, {ACTS[one.acting]}{since}: {one.reason}"


def _copied(one: CopyingView) -> Iterator[str]:
    if BY_MODE[one.acting].spends:
        why_not = f" only, because {one.whole}" if one.whole is not None else ""
        yield f"copied: {', '.join(one.copied)}{why_not}"
    for sent, what in ((True, "it sent"), (False, "it received")):
        passed = [each for each in one.traffic.passed if each.sent is sent]
        if passed:
            counts = (f"{each.traffic}: {each.copied} copied, {each.alone} not" for each in passed)
            yield f"packets that {what} in the last {one.traffic.seconds:.0f} s: {'; '.join(counts)}"


def _failover(one: ArmedFailoverView) -> str:
    what = f"from {one.watched} to {one.fallback} after {one.no_progress_ms} ms without progress"
    if one.refused:
        return f"not armed at {one.agent}, which refused: {what}: {one.refused}"
    if one.away:
        ends = f"its lease ends at {clock(one.until)}, or earlier if the agent has ended"
        return f"was armed at {one.agent}, which {one.away}: {what}; {ends}"
    return f"armed at {one.agent}: {what}"


def _decision(decision: DecisionView) -> Iterator[str]:
    how = ", hard (data in flight is sent again)" if decision.hard else ""
    stays = decision.left == decision.uplink
    move = f"stay on {decision.uplink}" if stays else f"from {decision.left} to {decision.uplink}"
    if decision.copies is not None:
        move = "copies begin" if decision.copies else f"copies end, only {decision.uplink} is used"
    yield f"{clock(decision.at)}  {WHO[decision.by]}: {move}{how}"
    yield f"    because {decision.reason}"
    if decision.reporters:
        yield f"    as reported by {', '.join(decision.reporters)}"
    for outcome in decision.outcomes:
        yield f"    {_outcome(outcome)}"
    if decision.unmoved:
        yield f"    {decision.unmoved}: {UNORDERED}"


def _outcome(outcome: OutcomeView) -> str:
    answer = shortened(outcome.answer, LONGEST)
    if outcome.agent is None:
        return f"{answer}{STATES[outcome.done]}"
    if outcome.done is None:
        return f"{outcome.agent}: no answer yet"
    state = "" if outcome.done else "not done: "
    reached = f"reached {counted(outcome.connections, 'connections')}"
    if outcome.took_us:  # unknown after an armed failover
        reached += f" in {outcome.took_us} us"
    again = f", {outcome.orders} orders" if outcome.orders > 1 else ""
    return f"{outcome.agent}: {state}{answer} ({reached}{again})"


def clock(moment: float) -> str:
    thousandths = int(moment * 1000) % 1000
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(moment))}.{thousandths:03d}"
