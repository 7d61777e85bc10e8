# SPDX-License-Identifier: Apache-2.0
"""Decide from evidence about the active uplink whether copies are worth their bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, target
from hypothesis import strategies as st

from controller.policy.copies import adaptive
from controller.policy.copies.adaptive import (
    CLEAN_S,
    KEPT_S,
    MEASURED_S,
    PAUSE_AT_MOST_S,
    TRY_S,
    CopyDecision,
    Watch,
    after_evidence,
    decide,
    decided,
    moved,
)
from controller.policy.copies.tallies import Evidence, LossCounts, Source, of_copies
from controller.policy.paths.evidence import is_late
from controller.protocol.reports import PathCopies, Subflow

PERIOD_S = 0.25
START = 100.0
ONE_PATH = Watch("wifi", START, copies=False)
COPIES = Watch("wifi", START)

Told = tuple[Watch, list[CopyDecision]]


def piece(source: Source, packets: int, lost: int = 0, late: int = 0, stalled_ms: int = 0) -> Evidence:
    return Evidence(source, PERIOD_S, LossCounts(packets, lost, late), stalled_ms)


def sent(packets: int = 100, lost: int = 0, late: int = 0) -> Evidence:
    return piece(Source.SENDERS, packets, lost, late)


def came(packets: int = 100, lost: int = 0, late: int = 0) -> Evidence:
    return piece(Source.COPIES, packets, lost, late)


def probed(packets: int = 3, lost: int = 0, late: int = 0) -> Evidence:
    return piece(Source.PROBES, packets, lost, late)


STALLED = piece(Source.SENDERS, 0, stalled_ms=600)


def after(watch: Watch, *each: Evidence, start: float = START, every_s: float = PERIOD_S) -> Told:
    """Return the watch after these reports, one per period, and the decisions made."""
    made = []
    for number, evidence in enumerate(each, start=1):
        now = start + number * every_s
        watch = after_evidence(watch, evidence, now)
        decision = decide("phone", watch, now)
        if decision is not None:
            made.append(decision)
            watch = decided(watch, decision)
    return watch, made


def for_s(seconds: float, evidence: Evidence) -> list[Evidence]:
    return [evidence] * int(seconds / PERIOD_S)


def begun_and_ended(made: list[CopyDecision]) -> list[tuple[bool, float]]:
    return [(each.copies, each.at - START) for each in made]


# On one path


def test_copies_begin_with_one_report_a_second() -> None:
    slow = replace(sent(100, 5), lasted_s=1.0)
    assert begun_and_ended(after(ONE_PATH, slow, every_s=1.0)[1]) == [(True, 1.0)]


def test_initial_burst_loss_does_not_begin_copies() -> None:
    burst = sent(500, 150)
    assert not after(ONE_PATH, *for_s(1, sent()), burst, burst, *for_s(3, sent()))[1]


def test_rare_loss_does_not_begin_copies() -> None:
    chance = Random(1)
    for packets in (60, 300):
        often = [sent(packets, drawn(chance, 0.003, packets)) for _ in range(4 * 300)]
        assert not after(ONE_PATH, *often)[1], "five minutes"
    assert not after(ONE_PATH, sent(2, 1), sent(2), sent(2), sent(2, 1), *for_s(2, sent(2)))[1], "few packets"


def test_late_packets_begin_copies() -> None:
    _, made = after(ONE_PATH, *for_s(1, sent(6, late=3)))
    assert made[0].copies and "0.0% of 18 packets lost, 50.0% late" in made[0].reason


def test_probes_at_fifty_a_second_need_two_lossy_reports() -> None:
    """Probes fill no queue, unlike the first packets of a sender. A burst of 0.1 s falls into one report."""
    assert begun_and_ended(after(ONE_PATH, *for_s(1, probed(12, 2)))[1]) == [(True, 0.5)]
    assert not after(ONE_PATH, probed(12), probed(12, 5), *for_s(3, probed(12)))[1]


def test_rare_probe_loss_does_not_begin_copies() -> None:
    once_a_second = [replace(probed(1, number % 60 == 0), lasted_s=1.0) for number in range(600)]
    assert not after(ONE_PATH, *once_a_second, every_s=1.0)[1]


def test_clean_packets_of_senders_do_not_hide_probe_loss() -> None:
    both = [each for _ in range(4) for each in (sent(1000), probed(3, 1))]
    assert after(ONE_PATH, *both, every_s=PERIOD_S / 2)[1]


def test_dead_path_has_copies_until_it_delivers() -> None:
    watch = adaptive.dead(ONE_PATH, "its port is down", START)
    decision = decide("phone", watch, START)
    assert decision and decision.reason == "wifi is dead (its port is down)"
    into_it = after_evidence(watch, probed(3, 3), START + 1)
    assert decide("phone", into_it, START + 1), "lost probes are no sign of life"
    assert decide("phone", after_evidence(watch, sent(), START + 1), START + 1) is None


def test_copied_packets_do_not_revive_a_dead_path() -> None:
    watch = adaptive.dead(Watch("wifi", START), "its port is down", START)
    for step in range(1, 500):
        watch = after_evidence(watch, sent(300), START + step * PERIOD_S)
        assert decide("phone", watch, START + step * PERIOD_S) is None, "copies are not tried without"
    assert after_evidence(watch, probed(30), START + 500).dead is None, "probes use this path alone"


def test_old_trouble_does_not_begin_copies() -> None:
    watch = ONE_PATH
    for number in range(3):
        watch = after_evidence(watch, sent(100, 5), START + number * PERIOD_S)
    assert decide("phone", watch, START + 0.5) and decide("phone", watch, START + 5) is None


def test_copies_in_flight_after_the_end_are_ignored() -> None:
    assert after_evidence(ONE_PATH, came(100, 50), START + 1) == ONE_PATH


# With copies


@pytest.mark.parametrize(
    "both",
    [
        pytest.param((sent(), came(100, 5)), id="end counters show loss"),
        pytest.param((sent(200, 3), came()), id="all paths lose a little"),
        pytest.param((came(100, late=8), came(100, late=8)), id="packets arrive late"),
    ],
)
def test_copies_stay_while_packets_are_lost_or_late(both: tuple[Evidence, Evidence]) -> None:
    assert not after(COPIES, *both * 400, every_s=PERIOD_S / 2)[1]


def test_recent_loss_outweighs_a_long_clean_time() -> None:
    _, made = after(COPIES, *for_s(9.5, came(1000)), *for_s(0.75, came(100, 5)), *for_s(20, came()))
    assert made[0].at >= START + 10.25 + CLEAN_S


def test_memory_of_reports_is_bounded() -> None:
    watch, _ = after(COPIES, *[came()] * 1000, every_s=0.0001)
    assert len(watch.evidence) == adaptive.MOST_EVIDENCE


def test_copies_stay_until_enough_packets_were_clean() -> None:
    assert begun_and_ended(after(COPIES, *[came(2)] * 200, every_s=1.0)[1]) == [(False, 150.0)], "300 packets later"


def test_clean_time_restarts_after_a_gap() -> None:
    watch, _ = after(COPIES, *for_s(8, came()))
    assert not after(watch, *for_s(8, came()), start=START + 8 + MEASURED_S)[1]
    watch, _ = after(COPIES, *for_s(8, sent()))
    assert decide("phone", watch, START + 60) is None, "no evidence, no decision"


def test_copies_stay_on_a_new_uplink_until_it_is_known() -> None:
    watch, _ = after(replace(COPIES, relapses=3), *for_s(8, came()))
    watch = moved(watch, "lte", START + 8)
    assert watch.copies and watch.reason == "unchanged since wifi: no measurement of lte yet"
    assert moved(watch, "lte", START + 9) is watch
    assert begun_and_ended(after(watch, *for_s(12, came()), start=START + 8)[1]) == [(False, 8 + PERIOD_S + CLEAN_S)]


# Relapses


def test_pause_doubles_with_each_relapse_and_resets() -> None:
    """Reports are clean with copies and lossy on one path."""
    watch, tries, now = COPIES, [], START
    while len(tries) < 7:
        now += PERIOD_S
        watch = after_evidence(watch, sent(100, 0 if watch.copies else 5), now)
        decision = decide("phone", watch, now)
        if decision is not None:
            waited = now - watch.since
            watch = decided(watch, decision)
            if decision.copies:
                assert waited <= 1.0
            else:
                tries.append(waited - PERIOD_S)
    assert tries == [TRY_S, 2 * TRY_S, 4 * TRY_S, 8 * TRY_S, *[PAUSE_AT_MOST_S] * 3]
    watch = decided(watch, CopyDecision("phone", True, "", now + KEPT_S))
    assert watch.relapses == 0


def test_barred_copies_do_not_begin_and_are_no_relapse() -> None:
    decision = decide("phone", COPIES, START, barred="used up until 00:00")
    assert decision == CopyDecision("phone", False, "used up until 00:00", START, barred=True)
    watch = decided(COPIES, decision)
    watch = after_evidence(watch, STALLED, START + 1)
    assert decide("phone", watch, START + 1, barred="used up until 00:00") is None
    decision = decide("phone", watch, START + 1)
    assert decision and decision.copies and decided(watch, decision).relapses == 0


# The script of the experiment: 5 minutes


PHASES = {"clean": 0.0, "5 %": 0.05, "10 % and bursts": 0.10, "dead": 1.0, "clean again": 0.0}
PHASE_S = 60.0

Seen = Callable[[Watch, Callable[[int], int]], Iterator[Evidence]]


def senders_and_ends(watch: Watch, lost: Callable[[int], int]) -> Iterator[Evidence]:
    """Two paths together lose almost nothing."""
    if watch.copies:
        yield came(300, lost(300))
        yield sent(300)
    else:
        yield sent(300, lost(300))


def senders_and_probes(watch: Watch, lost: Callable[[int], int]) -> Iterator[Evidence]:
    yield probed(3, lost(3))
    yield sent(300, 0 if watch.copies else lost(300))


def drawn(chance: Random, share: float, many: int) -> int:
    return sum(chance.random() < share for _ in range(many))


@pytest.mark.parametrize("seen", [senders_and_ends, senders_and_probes])
@pytest.mark.parametrize(("seed", "offset_s"), [(1, 0.0), (2, 0.06), (3, 0.13), (4, 0.24)])
def test_script_changes_copies_once_a_phase_within_a_second(seen: Seen, offset_s: float, seed: int) -> None:
    """The first report covers a part of the phase only. Switching, not copies, leaves the dead path."""
    watch, chance, changes = Watch("wifi", 0.0), Random(seed), list[tuple[str, bool, float]]()
    for number, (phase, loss) in enumerate(PHASES.items()):
        begins = number * PHASE_S
        for step in range(int(PHASE_S / PERIOD_S)):
            now = begins + offset_s + step * PERIOD_S
            in_burst = number == 2 and step % 40 < 4
            of_it = 0.0 if watch.active == "lte" else min(1.0, 5 * loss if in_burst else loss)
            share = min(1.0, (now - begins) / PERIOD_S)
            for evidence in seen(watch, partial(drawn, chance, of_it * share)):
                watch = after_evidence(watch, evidence, now)
                decision = decide("phone", watch, now)
                if decision is not None:
                    watch = decided(watch, decision)
                    changes.append((phase, decision.copies, now - begins))
            if phase == "dead" and step == 4:
                watch = moved(watch, "lte", now)
            if phase == "clean again" and step == 8:
                watch = moved(watch, "wifi", now)
    assert [(phase, copies) for phase, copies, _ in changes] == [("clean", False), ("5 %", True), ("dead", False)]
    assert changes[1][2] <= 1.0


# Random evidence


PIECES = st.builds(
    Evidence,
    st.sampled_from(Source),
    st.floats(0.0, 2.0),
    st.builds(LossCounts, st.integers(0, 5000), st.integers(-50, 5000), st.integers(0, 5000)),
    st.integers(0, 2000),
)
USUAL = (sent(), sent(100, 5), came(), came(100, 5), probed(30), probed(3, 1), sent(9, late=5), sent(0), STALLED)
OTHERWISE = ("wifi", "lte", "dead")
LASTS = st.tuples(st.sampled_from(USUAL) | PIECES | st.sampled_from(OTHERWISE), st.integers(1, 120))


@given(st.lists(LASTS, max_size=12), st.sampled_from([0.05, PERIOD_S, 1.0, 2.9]))
def test_copies_last_long_enough_and_never_overlap(series: list[tuple[Evidence | str, int]], every_s: float) -> None:
    """Each piece of evidence is repeated the given number of times."""
    watch, now, made = COPIES, START, list[CopyDecision]()
    for what, times in series:
        for _ in range(times):
            now += every_s
            if isinstance(what, Evidence):
                watch = after_evidence(watch, what, now)
            else:
                watch = adaptive.dead(watch, "so they say", now) if what == "dead" else moved(watch, what, now)
            decision = decide("phone", watch, now)
            if decision is not None:
                watch = decided(watch, decision)
                made.append(decision)
                assert decide("phone", watch, now) is None, "a second change at the same time"
    assert [each.copies for each in made] == [bool(number % 2) for number in range(len(made))]
    begun = [START, *(each.at for each in made if each.copies)]
    ended = [each.at for each in made if not each.copies]
    assert all(end - begin >= CLEAN_S for begin, end in zip(begun, ended, strict=False))
    assert all(then - before >= CLEAN_S for before, then in pairwise(begun))
    target(float(len(made)))


def test_clock_set_back_delays_no_decision() -> None:
    watch = after_evidence(ONE_PATH, sent(), START + 10**6)
    assert begun_and_ended(after(watch, *for_s(1, sent(100, 5)))[1]) == [(True, 0.75)]
    watch, _ = after(COPIES, came(), came(), start=START + 10**6)
    assert begun_and_ended(after(watch, *for_s(12, came()))[1]) == [(False, PERIOD_S + CLEAN_S)]


# Sources of evidence


def arrivals(first: int, eliminated: int, late: int = 0, skew: tuple[int, ...] = ()) -> PathCopies:
    return PathCopies("", True, first, eliminated, late, 0, 0, 0, 0, skew)


ZERO = {"wifi": arrivals(0, 0), "lte": arrivals(0, 0)}


@pytest.mark.parametrize("uncopied", [0, 5000])
def test_copied_packets_only_the_other_path_brought_count_as_lost(uncopied: int) -> None:
    evidence = of_copies("wifi", ZERO, {"wifi": arrivals(95 + uncopied, 0), "lte": arrivals(5, 94)}, 1.0)
    assert evidence == Evidence(Source.COPIES, 1.0, LossCounts(99, 5, 0))


def test_counters_are_compared_with_the_previous_report() -> None:
    before = {"wifi": arrivals(100, 10, 0, (9, 1)), "lte": arrivals(7, 90, 0, (90,))}
    now = {"wifi": arrivals(200, 10, 0, (9, 1)), "lte": arrivals(7, 190, 0, (90, 100))}
    evidence = of_copies("wifi", before, now, 0.25)
    assert evidence and evidence.counts == LossCounts(100, 0, 0)


def test_copies_without_a_second_path_are_no_evidence() -> None:
    alone = {"wifi": arrivals(100, 0), "lte": arrivals(0, 0)}
    assert of_copies("wifi", ZERO, alone, 1.0) is None
    assert of_copies("wifi", alone, ZERO, 1.0) is None, "the counters have restarted"
    assert of_copies("wifi", {}, alone, 1.0) is None and of_copies("third", ZERO, alone, 1.0) is None


def test_three_paths_count_each_lost_packet_once() -> None:
    after_all = {"wifi": arrivals(0, 0), "lte": arrivals(10, 0), "dsl": arrivals(10, 0)}
    evidence = of_copies("wifi", {**ZERO, "dsl": arrivals(0, 0)}, after_all, 1.0)
    assert evidence and evidence.counts == LossCounts(10, 10, 0)


def skewed(**by_power: int) -> tuple[int, ...]:
    return tuple(by_power.get(f"p{power}", 0) for power in range(32))


def test_late_copies_count_only_beyond_the_usual_delay() -> None:
    tail = {"wifi": arrivals(90, 10, 0, skewed(p20=2, p26=8)), "lte": arrivals(10, 90)}
    evidence = of_copies("wifi", ZERO, tail, 1.0)
    assert evidence and evidence.counts.late == 8
    longer = {"wifi": arrivals(0, 100, 0, skewed(p25=70, p26=29, p28=1)), "lte": arrivals(100, 0)}
    evidence = of_copies("wifi", ZERO, longer, 1.0)
    assert evidence and evidence.counts.late == 1


def subflow(srtt_us: int, in_flight: int) -> Subflow:
    return Subflow("a", 1, "b", 2, False, False, srtt_us, 20_000, 10, in_flight, 0, 0, 0, 0, 0)


def test_lateness_of_a_thick_flow_is_its_own_queue() -> None:
    assert is_late(subflow(90_000, 2)) and not is_late(subflow(90_000, 200)) and not is_late(subflow(70_000, 2))
