# SPDX-License-Identifier: Apache-2.0
"""A newcomer with the dpid of a connected switch waits until that switch has had time to answer."""

from __future__ import annotations

from controller.protocol.orders import Tickets
from controller.protocol.switch_messages import Apply, SwitchOpened
from controller.switches.duplicate_dpid import ANSWERS_WITHIN_S, DuplicateDpid


def test_connected_switch_has_time_to_answer_a_newcomer() -> None:
    duplicate_dpid = DuplicateDpid(Tickets())
    (barrier,) = duplicate_dpid.challenge(SwitchOpened(2, 1, "192.0.2.9:6633", {}), 1, 100.0)
    assert isinstance(barrier, Apply) and barrier.session == 1
    assert not duplicate_dpid.silent(100.0 + ANSWERS_WITHIN_S - 0.1)
    assert duplicate_dpid.silent(100.0 + ANSWERS_WITHIN_S)
