# SPDX-License-Identifier: Apache-2.0
"""Download over two relays, then over one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.laboratories.home import RelayedHome, relayed_home
from experiments.relay.parallel.plan import ONE, TWO, WAY_BPS, Plan
from lab.traffic.web import download
from topologies.home import RELAYS

QUEUE_PACKETS = 100
TERMINAL, ALONE, ACTIVE = "television", "tokyo", "wifi"


@dataclass(frozen=True, slots=True)
class Run:
    relays: int
    bps: float
    whole: bool  # every byte arrived, in order
    stalled: str

    def __str__(self) -> str:
        broken = "" if self.whole else "; WHAT CAME IS NOT WHAT WAS SENT"
        return f"by {self.relays} of 2 relays: {self.bps / 1e6:.1f} Mbit/s{broken}"


def carry_out(plan: Plan, _logs: Path) -> Iterator[Run]:
    with relayed_home(relays=tuple(RELAYS), at_once=True) as home:
        _limit_paths(home)
        home.pin(TERMINAL, "single", ACTIVE)
        home.await_passed_on(TERMINAL)
        yield from (_run_download(home, TWO, plan) for _ in range(plan.rounds))
        for name in RELAYS:
            if name != ALONE:
                home.controller.client.remove_relay(name)
        home.await_relayed(TERMINAL, ALONE)
        yield from (_run_download(home, ONE, plan) for _ in range(plan.rounds))


def _limit_paths(home: RelayedHome) -> None:
    exchange, rate = home.machine("exchange"), f"{WAY_BPS}bit"
    exchange.run("tc", "qdisc", "add", "dev", "core", "root", "handle", "1:", "htb")
    for number, address in enumerate(RELAYS.values(), 1):
        way = f"1:{number}"
        exchange.run("tc", "class", "add", "dev", "core", "parent", "1:", "classid", way, "htb", "rate", rate)
        exchange.run("tc", "qdisc", "add", "dev", "core", "parent", way, "pfifo", "limit", str(QUEUE_PACKETS))
        match = ("u32", "match", "ip", "src", f"{address}/32", "flowid", way)
        exchange.run("tc", "filter", "add", "dev", "core", "parent", "1:", "protocol", "ip", *match)


def _run_download(home: RelayedHome, relays: int, plan: Plan) -> Run:
    home.forget()
    file = home.web.offer("file", plan.size_bytes)
    home.stalled()  # forget earlier stalls
    got = download(home.machine(TERMINAL), file.url, mptcp=False)
    stalled = home.stalled() or _direct_reason(home)
    return Run(relays, plan.size_bytes * 8 / got.seconds, got.sha256 == file.sha256, stalled)


def _direct_reason(home: RelayedHome) -> str:
    """Return a reason not to count the run: relays on a busy host are skipped, and here all hosts are one machine."""
    return "" if home.seen(TERMINAL) in RELAYS.values() else "the download was direct, because the relays were busy"
