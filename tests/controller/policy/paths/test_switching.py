# SPDX-License-Identifier: Apache-2.0
"""Health follows from evidence, and the preferred uplink from health. No clock and no sleep is involved."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.policy.paths import health
from controller.policy.paths.health import UplinkHealth, UplinkPath, UplinkReading
from controller.policy.paths.uplink_choice import (
    KEPT_AFTER_S,
    MOST_MOVES,
    MOVES_WITHIN_S,
    RETURN_AFTER_S,
    Course,
    UplinkDecision,
    decide,
)

CLEAN = UplinkReading(segments=100, retransmits=0, acked_bytes=140_000, stalled_ms=0)
LOSING = UplinkReading(segments=100, retransmits=20, acked_bytes=100_000, stalled_ms=0)
STALLED = UplinkReading(segments=1, retransmits=1, acked_bytes=0, stalled_ms=600)
NOTHING = UplinkReading(0, 0, 0, 0)


def path_after(*readings: UplinkReading, path: UplinkPath | None = None, start: float = 100.0) -> UplinkPath:
    """Return a path after these reports, one a second."""
    path = path or UplinkPath()
    for second, reading in enumerate(readings):
        path = health.reported(path, reading, start + second)
    return path


def test_initial_loss_burst_does_not_make_an_uplink_lossy() -> None:
    burst = UplinkReading(segments=2000, retransmits=600, acked_bytes=2_000_000, stalled_ms=0)
    assert path_after(burst, burst, CLEAN, CLEAN, CLEAN).health is UplinkHealth.GOOD
    assert path_after(CLEAN, CLEAN, burst, burst, CLEAN).health is UplinkHealth.GOOD
    assert path_after(*[UplinkReading(4, 1, 4000, 0)] * 3).health is UplinkHealth.UNKNOWN, "too few segments"


def test_loss_between_the_thresholds_changes_nothing() -> None:
    edge = UplinkReading(100, 6, 130_000, 0)
    assert path_after(*[edge] * 20, path=path_after(CLEAN)).health is UplinkHealth.GOOD
    assert path_after(*[edge] * 20, path=path_after(*[LOSING] * 3)).health is UplinkHealth.LOSSY


def test_lossy_uplink_is_good_after_a_long_clean_time() -> None:
    lossy = path_after(*[LOSING] * 3)
    assert path_after(*[CLEAN] * 6, path=lossy, start=103).health is UplinkHealth.LOSSY
    assert path_after(*[CLEAN] * 8, path=lossy, start=103).health is UplinkHealth.GOOD


def test_loss_at_the_clean_limit_is_clean() -> None:
    assert path_after(UplinkReading(100, 3, 140_000, 0)).health is UplinkHealth.GOOD


def test_downed_port_stays_dead_until_it_is_up() -> None:
    down = health.port_seen(path_after(CLEAN), False, 101)
    assert health.passed(path_after(CLEAN, path=down), 10_000).health is UplinkHealth.DEAD
    assert health.port_seen(down, True, 102).health is UplinkHealth.UNKNOWN


def test_silence_makes_health_unknown() -> None:
    for path in (path_after(CLEAN), path_after(*[LOSING] * 3), path_after(CLEAN, STALLED)):
        assert health.passed(path, path.heard_at + health.SILENT_AFTER_S - 0.1).health is path.health
        assert health.passed(path, path.heard_at + health.SILENT_AFTER_S).health is UplinkHealth.UNKNOWN


def test_acknowledgements_end_death_and_prove_no_low_loss() -> None:
    dead = path_after(CLEAN, STALLED)
    assert path_after(UplinkReading(0, 0, 5000, 0), path=dead).health is UplinkHealth.UNKNOWN
    assert path_after(UplinkReading(0, 0, 5000, 0), path=path_after(*[LOSING] * 3)).health is UplinkHealth.LOSSY
    assert path_after(CLEAN, path=dead, start=102).health is UplinkHealth.GOOD


def test_unacknowledged_sends_do_not_revive_a_dead_uplink() -> None:
    dead = path_after(CLEAN, STALLED)
    into_it = path_after(*[UplinkReading(5, 0, 0, 0)] * 20, path=dead, start=102)
    assert into_it.health is UplinkHealth.DEAD
    silent = health.passed(into_it, dead.heard_at + health.SILENT_AFTER_S)
    assert silent.health is UplinkHealth.UNKNOWN and "nothing was acknowledged over it for 10 s" in silent.reason


def test_report_without_traffic_changes_nothing() -> None:
    path = path_after(CLEAN)
    assert health.reported(path, NOTHING, 500) == path


def chosen(course: Course, at: float = 200.0, **paths: UplinkPath) -> UplinkDecision | None:
    return decide("phone", "wifi", course, paths, at)


ON_WIFI, ON_LTE = Course("wifi", 0.0), Course("lte", 190.0)


def test_lossy_uplink_is_left_for_an_unknown_one() -> None:
    decision = chosen(ON_WIFI, wifi=path_after(*[LOSING] * 3), lte=UplinkPath())
    reason = "wifi is lossy (20% of 300 segments retransmitted in 3 reports; lossy from 10%); lte is unknown ("
    assert decision == UplinkDecision("phone", "lte", reason + "no report yet)", 200.0, hard=False)


def test_default_wins_among_equal_uplinks_in_any_file_order() -> None:
    decision = chosen(ON_LTE, dsl=path_after(CLEAN), lte=path_after(STALLED), wifi=path_after(CLEAN))
    assert decision and decision.prefer == "wifi"
    returned = chosen(ON_LTE, lte=path_after(CLEAN), wifi=path_after(CLEAN))
    assert returned and returned.prefer == "wifi" and not returned.hard


def test_terminal_stays_if_no_uplink_is_better() -> None:
    for both in (UplinkPath(), path_after(CLEAN), path_after(*[LOSING] * 3), path_after(CLEAN, STALLED)):
        assert chosen(ON_WIFI, wifi=both, lte=both) is None
    assert chosen(ON_WIFI, wifi=UplinkPath(), lte=path_after(CLEAN)) is None, "an unknown uplink is not left"
    assert chosen(ON_WIFI, lte=path_after(CLEAN)) is chosen(ON_LTE, wifi=path_after(CLEAN)) is None, "removed uplinks"


def test_two_lossy_uplinks_do_not_alternate() -> None:
    silent = health.passed(path_after(*[LOSING] * 3, start=100.0), 102.0 + health.SILENT_AFTER_S)
    assert silent.health is UplinkHealth.UNKNOWN and silent.since == 112.0
    lossy = path_after(*[LOSING] * 3, start=110.0)
    assert chosen(ON_LTE, at=112.0 + RETURN_AFTER_S - 1, wifi=silent, lte=lossy) is None
    assert chosen(ON_LTE, at=112.0 + RETURN_AFTER_S, wifi=silent, lte=lossy)
    dead = path_after(CLEAN, STALLED, start=110.0)
    assert chosen(ON_LTE, at=113.0, wifi=silent, lte=dead), "lossy is better than dead"


def test_unknown_default_is_retried_after_a_doubling_pause() -> None:
    for failed, pause in ((0, RETURN_AFTER_S), (1, 2 * RETURN_AFTER_S), (2, 4 * RETURN_AFTER_S)):
        course = Course("lte", 190.0, failed)
        assert chosen(course, 190.0 + pause - 1, wifi=UplinkPath(), lte=path_after(CLEAN)) is None
        assert chosen(course, 190.0 + pause, wifi=UplinkPath(), lte=path_after(CLEAN))


def test_lasting_return_clears_failures_and_a_short_one_counts() -> None:
    back = Course("lte", 0.0, 2).moved("wifi", "wifi", 100.0)
    assert back.moved("lte", "wifi", 100.0 + KEPT_AFTER_S - 1).returns_failed == 3
    assert back.moved("lte", "wifi", 100.0 + KEPT_AFTER_S).returns_failed == 0


def test_moves_are_limited_unless_the_port_is_down() -> None:
    course, at = Course("wifi", 0.0), [200.0 + step for step in range(MOST_MOVES)]
    for number, now in enumerate(at):
        to = ("lte", "wifi")[number % 2]
        paths = {course.active: path_after(CLEAN, STALLED), to: path_after(CLEAN)}
        decision = chosen(course, now, **paths)
        assert decision and decision.prefer == to, "the first moves are immediate"
        course = course.moved(to, "wifi", now)
    other = {"lte": "wifi", "wifi": "lte"}[course.active]
    dead = {course.active: path_after(CLEAN, STALLED), other: path_after(CLEAN)}
    over = at[0] + MOVES_WITHIN_S
    assert chosen(course, over - 0.1, **dead) is None and chosen(course, over, **dead)
    down = {**dead, course.active: health.port_seen(path_after(CLEAN), False, over - 1)}
    assert chosen(course, over - 0.1, **down), "the switch itself reports the port"


READINGS = st.builds(
    UplinkReading, st.integers(0, 500), st.integers(0, 500), st.integers(0, 10**6), st.integers(0, 2000)
)
EVIDENCE = st.tuples(st.sampled_from(["wifi", "lte"]), READINGS | st.booleans())


@given(st.lists(EVIDENCE, max_size=60))
def test_random_evidence_never_moves_to_a_dead_uplink(evidence: list[tuple[str, object]]) -> None:
    paths, course = {"wifi": UplinkPath(), "lte": UplinkPath()}, ON_WIFI
    for second, (name, what) in enumerate(evidence):
        now = 100.0 + second
        if isinstance(what, UplinkReading):
            paths[name] = health.reported(paths[name], what, now)
        else:
            paths[name] = health.port_seen(paths[name], bool(what), now)
        paths = {each: health.passed(path, now) for each, path in paths.items()}
        decision = decide("phone", "wifi", course, paths, now)
        if decision:
            assert decision.prefer != course.active
            assert paths[decision.prefer].health is not UplinkHealth.DEAD
            course = course.moved(decision.prefer, "wifi", now)
            assert decide("phone", "wifi", course, paths, now) is None, "a second move at the same time"
