# SPDX-License-Identifier: Apache-2.0
"""Time transfers with curl."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.laboratories.home import RelayedHome, relayed_home
from experiments.relay.home.plan import ALONE, DOWN, DOWN_LOSS_PERCENT, UP_LOSS_PERCENT, Plan, Task
from experiments.transfer.plan import FRAME_BYTES, PAYLOAD_BYTES
from lab.stage import ovs
from lab.stage.watch import watched
from lab.traffic.web import download, sha256, upload
from topologies.paper import WIFI_BPS

ATTEMPTS = 3  # when the machine stalled
ACTIVE, RELAY = "wifi", "tokyo"
# TCP's payload on Wi-Fi alone, with MPTCP's options. Loss precedes the shaper's queue and takes no capacity.
LINE_BPS = WIFI_BPS * PAYLOAD_BYTES / FRAME_BYTES
RELAYED, LEFT_ALONE = "television", "guest"


@dataclass(frozen=True, slots=True)
class Run:
    task: Task
    seconds: float  # by curl
    whole: bool  # every byte arrived, in order
    stalled: str

    def __str__(self) -> str:
        broken = "" if self.whole else "; WHAT CAME IS NOT WHAT WAS SENT"
        return f"{self.task}: {self.seconds:.1f} s, {self.bps / 1e6:.1f} Mbit/s{broken}"

    @property
    def bps(self) -> float:
        return self.task.size_bytes * 8 / self.seconds

    @property
    def of_limit(self) -> float:
        """Return the time relative to the line's minimum."""
        return LINE_BPS / self.bps


def carry_out(plan: Plan, logs: Path) -> Iterator[Run]:
    with (
        relayed_home(
            congestion="bbr",
            wifi_up_loss_percent=UP_LOSS_PERCENT,
            wifi_down_loss_percent=DOWN_LOSS_PERCENT,
            congestion_control="cubic",
        ) as home,
        watched((home.controller.needed(), *ovs.needed()), logs),
    ):
        for task in plan.tasks:
            for _ in range(ATTEMPTS):
                run = run_transfer(home, task)
                yield run
                if not run.stalled:
                    break


def run_transfer(home: RelayedHome, task: Task) -> Run:
    name = LEFT_ALONE if task.how == ALONE else RELAYED
    if name == RELAYED:
        home.pin(name, task.how, ACTIVE)
        home.await_relayed(name)
        if task.how != "off":  # mode off has no active subflow
            home.await_store(name, RELAY, ACTIVE)
    home.forget()
    file = home.web.offer("file", task.size_bytes)
    home.stalled()  # forget earlier stalls
    if task.direction == DOWN:
        got = download(home.machine(name), file.url, mptcp=False)
        return Run(task, got.seconds, got.sha256 == file.sha256, home.stalled())
    seconds = upload(home.machine(name), home.web.file("file"), home.web.url("up"))
    stalled = home.stalled()
    return Run(task, seconds, sha256(home.web.file("up")) == file.sha256, stalled)
