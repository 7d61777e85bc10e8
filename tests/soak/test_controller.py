# SPDX-License-Identifier: Apache-2.0
"""A controller's memory does not grow in hours of changes at its tunnels."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.soak.conftest import SOAK_S
from tests.system import test_tunnels as scenes
from tests.system.evidence import PATIENCE_S, until
from tests.system.tunnelled import CLIENT, TunnelLab, tunnelling
from topologies.natted import OUTER, nat

GROWTH_BYTES = 30_000_000  # over the first round, in which modules and caches are filled


@pytest.fixture(scope="module")
def tunnelled(place: Path) -> Iterator[TunnelLab]:
    with tunnelling(place) as both:
        yield both


def test_memory_is_stable_through_nat_changes_and_restarts(
    tunnelled: TunnelLab, capsys: pytest.CaptureFixture[str]
) -> None:
    began, rounds, first = time.monotonic(), 0, 0
    while time.monotonic() - began < SOAK_S or not rounds:
        play(tunnelled)
        rounds += 1
        rss = rss_bytes(tunnelled)
        first = first or rss
        minutes = (time.monotonic() - began) / 60
        with capsys.disabled():
            print(f"\n{minutes:.0f} min, round {rounds}: {rss / 1e6:.0f} MB", end="", flush=True)
    assert tunnelled.controller.process.poll() is None
    assert rss_bytes(tunnelled) <= first + GROWTH_BYTES


def play(tunnelled: TunnelLab) -> None:
    scenes.test_every_ping_is_answered_once(tunnelled, CLIENT)
    with put_back(tunnelled):
        scenes.test_a_new_outer_address_is_followed_without_loss(tunnelled, PATIENCE_S)
    with put_back(tunnelled):
        scenes.test_a_new_nat_mapping_is_followed_without_loss(tunnelled, PATIENCE_S)
    scenes.test_both_uplinks_may_be_behind_one_address(tunnelled)
    scenes.test_foreign_packets_are_dropped_and_counted(tunnelled)
    scenes.test_tunnels_survive_a_killed_agent_and_are_taken_over(tunnelled)
    scenes.test_tunnels_work_again_after_an_agent_restarts(tunnelled)


@contextmanager
def put_back(tunnelled: TunnelLab) -> Iterator[None]:
    yield
    nat(tunnelled.net, "wifi").redial(f"{OUTER['wifi']}.10/24")
    until(lambda: tunnelled.peer("wifi").startswith(f"{OUTER['wifi']}.10 "), "wifi is found again")
    tunnelled.await_up()


def rss_bytes(tunnelled: TunnelLab) -> int:
    status = Path(f"/proc/{tunnelled.controller.process.pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS:"))
