# SPDX-License-Identifier: Apache-2.0
"""Four reports a second, needed for caps, do not make steering decisions faster."""

from __future__ import annotations

from typing import Any

import pytest

from controller.policy.paths.health import UplinkHealth
from controller.protocol.orders import ReportEvery
from tests.controller import sites
from tests.controller.features.steering.test_manager import SteeringScenario


class UploadingClient(SteeringScenario):
    """The client sends, and reports at the ordered interval."""

    def __init__(self, rule: str) -> None:
        written = sites.document()
        written["sites"]["home"]["access_points"]["air"]["rule"] = rule
        super().__init__(written=written)
        self.host = self.client()
        self.drain()
        self.connection()
        self._reported_at = self.now

    def goes_on(self, seconds: float, loss: float = 0.0, dead: bool = False) -> list[tuple[float, str, UplinkHealth]]:
        """Return the changes of Wi-Fi's health, and the client's uplink at each."""
        seen: list[tuple[float, str, UplinkHealth]] = []
        for _ in range(round(seconds * 4)):
            self.now += 0.25
            self._send(loss, dead)
            if self.now == int(self.now):
                self.carry(self.core.tick(self.now))
            every = [order.interval_ms for order in self.host.orders if isinstance(order, ReportEvery)] or [1000]
            if self.now - self._reported_at >= every[-1] / 1000:
                self.tell(self.host.report(interval_ms=round(1000 * (self.now - self._reported_at))))
                self._reported_at = self.now
            self.drain()
            state = (self.active, self.health("wifi"))
            if not seen or seen[-1][1:] != state:
                seen.append((self.now, *state))
        return seen

    def _send(self, loss: float, dead: bool) -> None:
        end = self.world[0].subflows[0].terminal
        end.in_flight = 10
        if dead:
            end.since_ack_ms += 250
            end.segments_sent += 1
            end.retransmits += 1
            return
        end.since_ack_ms = 1
        end.segments_sent += 100
        end.retransmits += int(100 * loss)
        end.bytes_acked += int(100 * (1 - loss)) * 1400


@pytest.mark.parametrize("fate", [{"loss": 0.3}, {"dead": True}, {}])
def test_decision_takes_as_long_as_with_one_report_a_second(fate: dict[str, Any]) -> None:
    usual, often = UploadingClient("off"), UploadingClient("ideal")
    for scene in (usual, often):
        scene.goes_on(4)
        scene.goes_on(1, loss=0.4)  # with four reports a second, a burst fills three reports
        scene.goes_on(6)
        assert (scene.active, scene.health("wifi")) == ("wifi", UplinkHealth.GOOD)
    assert not [each for each in usual.host.orders if isinstance(each, ReportEvery)]
    assert [each for each in often.host.orders if isinstance(each, ReportEvery)] == [ReportEvery(250)]
    slow, fast = usual.goes_on(10, **fate), often.goes_on(10, **fate)
    assert [state[1:] for state in fast] == [state[1:] for state in slow]
    assert all(abs(quick[0] - usual_at[0]) <= 1.0 for quick, usual_at in zip(fast, slow, strict=True)), (slow, fast)
    assert not fate or len(slow) > 1, "no change happened"
