# SPDX-License-Identifier: Apache-2.0
"""One terminal's download uses two relays at once, with a real controller and agents."""

from __future__ import annotations

import pytest

from experiments.laboratories.home import relayed_home
from lab.traffic.download import flowing
from topologies.home import RELAYS

BYTES = 20_000_000
LEAST_BYTES = BYTES // 20  # over the other relay: both paths are alike


@pytest.mark.timed
def test_a_download_uses_two_relays_at_once() -> None:
    with relayed_home(relays=tuple(RELAYS), at_once=True) as home:
        home.pin("television", "bicast", "wifi")
        home.await_passed_on("television")
        file = home.web.offer("long", BYTES)
        with flowing(home.machine("television"), file, "tcp") as under_way:
            while max(home.passed_on(), default=0) < LEAST_BYTES:
                assert not under_way.ended, home.passed_on()
            assert under_way.received().sha256 == file.sha256
