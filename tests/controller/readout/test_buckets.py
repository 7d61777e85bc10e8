# SPDX-License-Identifier: Apache-2.0
"""The counters of buckets name the uplink to which each bucket leads."""

from __future__ import annotations

from controller.readout.build import buckets
from controller.switches.pacing import EVERY_S
from tests.controller.core.test_core import all_answer, connected
from tests.controller.features.copies.test_budgets import C1, from_client, metered


def test_buckets_are_counted_for_their_uplinks_also_through_a_meter() -> None:
    """Buckets towards terminals are not among them."""
    pair = connected(metered())
    all_answer(pair)
    for _ in range(3):
        pair.fakes[1].send(from_client(), C1)
    for _ in range(EVERY_S + 1):
        pair.second()
    found = {(each.group, each.uplink): each.counters.packets for each in buckets(pair.core) if each.counters.packets}
    assert found == {("client bicast from 192.168.110.3", name): 3 for name in ("wifi", "lte")}
