# SPDX-License-Identifier: Apache-2.0
"""A neighbour's MAC takes effect at once, but changes at a limited rate."""

from __future__ import annotations

from ipaddress import IPv4Address
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from controller.switches.neighbours import CHANGE_EVERY_S, NeighbourDamping

PHONE, TABLET = ("lan0", IPv4Address("10.1.0.7")), ("lan0", IPv4Address("10.1.0.8"))
OLD, NEW, NEWEST = "0a:00:00:00:00:01", "0a:00:00:00:00:02", "0a:00:00:00:00:03"


def test_first_and_rarely_changed_macs_take_effect_at_once() -> None:
    learning = NeighbourDamping()
    assert learning.accepts(PHONE, OLD, None, 0.0)
    assert learning.accepts(PHONE, NEW, OLD, CHANGE_EVERY_S)
    assert learning.accepts(TABLET, NEW, OLD, CHANGE_EVERY_S), "each neighbour has its own time"


@given(st.lists(st.tuples(st.floats(0.0, 0.5), st.sampled_from([OLD, NEW, NEWEST])), max_size=60))
def test_mac_changes_once_a_second_and_ends_at_the_newest(
    words: list[tuple[float, str]],
) -> None:
    learning, now = NeighbourDamping(), 0.0
    taken: list[tuple[float, str]] = []
    for pause, mac in words:
        now += pause
        taken += [(now, due) for due in learning.due(now).values()]
        if learning.accepts(PHONE, mac, taken[-1][1] if taken else None, now):
            taken.append((now, mac))
    end = now + 2 * CHANGE_EVERY_S  # sums of fractions are slightly too small
    taken += [(end, due) for due in learning.due(end).values()]
    assert [mac for _, mac in taken[-1:]] == [mac for _, mac in words[-1:]]
    assert all(later - earlier >= CHANGE_EVERY_S for (earlier, _), (later, _) in pairwise(taken))
