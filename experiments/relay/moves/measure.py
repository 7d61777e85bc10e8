# SPDX-License-Identifier: Apache-2.0
"""Run each download twice: kept on Wi-Fi, and left to policies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from experiments.laboratories.home import RelayedHome, relayed_home
from experiments.relay.moves.plan import SENDERS, Plan
from lab.traffic.web import CURL
from topologies.paper import WIFI_BPS

TERMINAL, RELAY, ACTIVE, OTHER = "television", "tokyo", "wifi", "lte"
LATE_SHARE = 0.001  # packets delayed by the machine, too few to change a rate over half a minute


@dataclass(frozen=True, slots=True)
class Run:
    sender: str
    loss_percent: int
    lte_bps: int
    staying_bps: float
    moved_bps: float
    ended_on: str
    moves: int
    stalled: str

    def __str__(self) -> str:
        return (
            f"{self.sender}, Wi-Fi losing {self.loss_percent} %, LTE of {self.lte_bps / 1e6:.0f} Mbit/s: "
            f"{self.staying_bps / 1e6:.1f} Mbit/s staying, {self.moved_bps / 1e6:.1f} left to policies "
            f"({self.moves} moves, at the end on {self.ended_on})"
        )


def carry_out(plan: Plan, _logs: Path) -> Iterator[Run]:
    for sender, _, loss, lte_bps in product(SENDERS, range(plan.rounds), plan.losses_percent, plan.lte_bps):
        # a fresh home: the controller remembers an uplink's capacity for ten minutes
        with relayed_home(congestion=sender) as home:
            home.net.uplink(ACTIVE).backward.set(rate_bps=WIFI_BPS, loss_percent=loss)
            home.net.uplink(OTHER).backward.set(rate_bps=lte_bps, loss_percent=0)
            yield _compare(home, plan, sender, loss, lte_bps)


def _compare(home: RelayedHome, plan: Plan, sender: str, loss_percent: int, lte_bps: int) -> Run:
    client = home.controller.client
    _begin(home)
    home.stalled()  # discard what came before
    staying_bps = _download_bps(home, plan.seconds)
    _begin(home)
    before = len(client.get("terminals", TERMINAL, "decisions")["decisions"])
    client.set_active(TERMINAL, "auto")
    moved_bps = _download_bps(home, plan.seconds)
    decisions = client.get("terminals", TERMINAL, "decisions")
    moves = [each for each in decisions["decisions"][: len(decisions["decisions"]) - before] if each["by"] != "people"]
    ended_on = decisions["active_uplink"]
    return Run(sender, loss_percent, lte_bps, staying_bps, moved_bps, ended_on, len(moves), home.stalled(LATE_SHARE))


def _begin(home: RelayedHome) -> None:
    home.pin(TERMINAL, "single", ACTIVE)
    home.await_relayed(TERMINAL)
    home.await_store(TERMINAL, RELAY, ACTIVE)
    home.forget()


def _download_bps(home: RelayedHome, seconds: int) -> float:
    file = home.web.offer("file", WIFI_BPS // 8 * seconds)
    words = (*CURL, "--max-time", str(seconds), "--output", "/dev/null", "--write-out", "%{size_download}", file.url)
    return int(home.machine(TERMINAL).run(*words, check=False, timeout_s=seconds + 30).stdout) * 8 / seconds
