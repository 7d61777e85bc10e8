# SPDX-License-Identifier: Apache-2.0
"""A neighbour that does not answer is asked again soon, even if it was known."""

from __future__ import annotations

import pytest

from controller.model.observed import Neighbour, Observed
from controller.switches.neighbours import KNOWN_EVERY_S, Schedule
from tests.controller import sites
from tests.controller.sites import PORTS

SITE = sites.paper_site()
SEEN = Observed(PORTS, sites.learned(SITE))
HOP: Neighbour = ("lte0", SITE.uplink("lte").next_hops[0].address)
PHONE: Neighbour = ("lan0", SITE.terminals[1].addresses[0].address)


def asked(schedule: Schedule, now: float, doubted: frozenset[str] = frozenset()) -> list[Neighbour]:
    return [each.where for each in schedule.due(SITE, SEEN, now, doubted)]


@pytest.mark.parametrize("where", [HOP, PHONE])
def test_neighbour_is_asked_until_it_answers_and_after_a_change_of_its_port(where: Neighbour) -> None:
    schedule = Schedule()
    assert [where in asked(schedule, now) for now in (0.0, 0.5, 1.0)] == [True, False, True]
    schedule.answered(where)
    assert where in asked(schedule, 3.0)
    assert where not in asked(schedule, 3.0 + KNOWN_EVERY_S - 1)
    assert where in asked(schedule, 3.0 + KNOWN_EVERY_S)
    schedule.at_once(where[0])
    assert [where in asked(schedule, 3.0 + KNOWN_EVERY_S + s) for s in (0.1, 0.5, 1.1)] == [True, False, True]


def test_next_hop_of_a_doubted_uplink_is_asked_each_second() -> None:
    schedule, doubted = Schedule(), frozenset({"lte"})
    assert HOP in asked(schedule, 0.0)
    schedule.answered(HOP)
    assert HOP in asked(schedule, 1.0) and HOP not in asked(schedule, 2.0)
    for now in (3.0, 4.0, 5.0):
        assert HOP in asked(schedule, now, doubted)
        schedule.answered(HOP)
    assert HOP in asked(schedule, 6.0) and HOP not in asked(schedule, 7.0)
