# SPDX-License-Identifier: Apache-2.0
"""The bandwidth of an access point without a configured value is measured by the agents, and shown with its age."""

from __future__ import annotations

from typing import Any

import pytest

from controller.policy.caps.flows import PACKET_BYTES, PAYLOAD_BYTES
from tests.controller.access_point import ADDRESSES, SharedAccessPoint, document
from tests.fakes.capper import FakeStream

RATE_BPS = 18_700_000
FIGURE_BPS = pytest.approx(RATE_BPS * PACKET_BYTES / PAYLOAD_BYTES, rel=0.01)


def without_bandwidth() -> dict[str, Any]:
    written = document()
    del written["sites"]["home"]["access_points"]["air"]["bandwidth_bps"]
    return written


def saturated(air: SharedAccessPoint, name: str, rate_bps: int = RATE_BPS) -> FakeStream:
    return air.stream(name, rate_bps=rate_bps, srtt_us=200_000)


def test_cap_waits_for_a_measurement_that_is_shown_with_its_age() -> None:
    air = SharedAccessPoint(without_bandwidth())
    laptop, stream = air.sender("laptop"), air.stream("laptop", rate_bps=RATE_BPS)
    air.run(5)
    assert laptop.window(stream) is None and (air.place().bandwidth_bps, air.place().measured) == (None, None)
    assert air.view("laptop").reason == "no cap: the bandwidth of its access point is not known yet"
    stream.srtt_us = 200_000
    air.run(3)
    cap, measured = laptop.window(stream), air.place().measured
    assert cap is not None and cap.most_segments < 60 and air.view("laptop").held
    assert air.place().bandwidth_bps == FIGURE_BPS and measured is not None and measured.least_bps == FIGURE_BPS
    assert "ideal: 1 active, 19.37 Mbit/s x " in air.view("laptop").reason
    confirmed_s = measured.age_s
    stream.rate_bps = 100_000
    air.run(4)
    rests = air.place().measured
    assert rests is not None and rests.age_s >= confirmed_s + 2 and air.place().bandwidth_bps == FIGURE_BPS


def test_configured_bandwidth_is_not_measured() -> None:
    air = SharedAccessPoint()
    air.sender("laptop")
    saturated(air, "laptop")
    air.run(5)
    assert (air.place().bandwidth_bps, air.place().measured) == (20_000_000, None)
    measuring = without_bandwidth()
    air.reconfigured(measuring)
    air.run(3)
    assert air.place().bandwidth_bps == FIGURE_BPS
    air.reconfigured(measuring)
    assert air.place().bandwidth_bps == FIGURE_BPS, "an unchanged file keeps the measurement"
    air.reconfigured(document())
    assert (air.place().bandwidth_bps, air.place().measured) == (20_000_000, None)


def test_gateway_counts_phones_with_laptops_whose_claims_are_ignored() -> None:
    air = SharedAccessPoint(without_bandwidth())
    gateway, laptop = air.gateway("window"), air.sender("laptop")
    phones, own = saturated(air, "phone", RATE_BPS // 2), saturated(air, "laptop", RATE_BPS // 2)
    air.run(4)
    assert air.place().bandwidth_bps == FIGURE_BPS
    assert gateway.window(phones) is not None and laptop.window(own) is not None
    lie = FakeStream(ADDRESSES["laptop"], "203.0.113.9", min_rtt_us=16_000, srtt_us=16_000, rate_bps=10**9)
    for _ in range(8):
        lie.pass_time(0.25)
        laptop.invented = (lie.as_subflow(),)
        air.run(0.25)
        assert air.place().bandwidth_bps == FIGURE_BPS
