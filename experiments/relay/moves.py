"""What policies make of a relayed download on a lossy Wi-Fi, beside staying there: by loss, LTE's rate and the sender.

The home is that of topologies/home.py. Wi-Fi carries 100 Mbit/s and loses packets on the way down. The relay sends with
bbr or cubic, the terminal is in mode single. Each download runs for the same time: once kept on Wi-Fi by an override,
once left to policies.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Drawing

from experiments.laboratories.home import RelayedHome, relayed_home
from lab.results.campaign import Campaign
from lab.results.figures import Figure, at_least, middle
from lab.traffic.web import CURL
from topologies.paper import WIFI_BPS

TERMINAL, RELAY, ACTIVE, OTHER = "television", "tokyo", "wifi", "lte"
SENDERS = ("bbr", "cubic")
WORTH = 0.8  # of staying: where LTE is slower, a trial of it takes some of the time
LATE_SHARE = 0.001  # of the packets, by the machine's fault: what a rate over half a minute does not show
HEADER = ("sender", "loss_percent", "lte_mbit_s", "staying_mbit_s", "left_to_policies_mbit_s", "ended_on", "moves")


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # its files in results/relay/moves are named so
    rounds: int
    seconds: int
    losses_percent: tuple[int, ...]
    lte_bps: tuple[int, ...]


QUICK = Plan("quick", 1, 30, (10,), (10_000_000, 50_000_000))
FULL = Plan("full", 1, 30, (5, 10, 20), (2_000_000, 10_000_000, 50_000_000, 100_000_000))


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


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


def carry_out(plan: Plan, _logs: Path) -> Iterator[Run]:
    for sender, _, loss, lte_bps in product(SENDERS, range(plan.rounds), plan.losses_percent, plan.lte_bps):
        with relayed_home(congestion=sender) as home:  # anew: what an uplink carries is known for ten minutes
            home.net.uplink(ACTIVE).backward.set(rate_bps=WIFI_BPS, loss_percent=loss)
            home.net.uplink(OTHER).backward.set(rate_bps=lte_bps, loss_percent=0)
            yield _compared(home, plan, sender, loss, lte_bps)


def _compared(home: RelayedHome, plan: Plan, sender: str, loss_percent: int, lte_bps: int) -> Run:
    client = home.controller.client
    _begin(home)
    home.stalled()  # from here on it counts
    staying_bps = _downloaded(home, plan.seconds)
    _begin(home)
    before = len(client.get("terminals", TERMINAL, "decisions")["decisions"])
    client.set_active(TERMINAL, "auto")
    moved_bps = _downloaded(home, plan.seconds)
    decisions = client.get("terminals", TERMINAL, "decisions")
    moves = [each for each in decisions["decisions"][: len(decisions["decisions"]) - before] if each["by"] != "people"]
    ended_on = decisions["active_uplink"]
    return Run(sender, loss_percent, lte_bps, staying_bps, moved_bps, ended_on, len(moves), home.stalled(LATE_SHARE))


def _begin(home: RelayedHome) -> None:
    home.pin(TERMINAL, "single", ACTIVE)
    home.await_relayed(TERMINAL)
    home.await_store(TERMINAL, RELAY, ACTIVE)
    home.forget()


def _downloaded(home: RelayedHome, seconds: int) -> float:
    """The rate at which bytes came within this time."""
    file = home.web.offer("file", WIFI_BPS // 8 * seconds)
    words = (*CURL, "--max-time", str(seconds), "--output", "/dev/null", "--write-out", "%{size_download}", file.url)
    return int(home.machine(TERMINAL).run(*words, check=False, timeout_s=seconds + 30).stdout) * 8 / seconds


def figures(runs: Sequence[Run]) -> Iterator[Figure]:
    good = [run for run in runs if not run.stalled]
    for sender, loss, lte_bps in sorted({(run.sender, run.loss_percent, run.lte_bps) for run in good}):
        those = [run for run in good if (run.sender, run.loss_percent, run.lte_bps) == (sender, loss, lte_bps)]
        told = f"{sender}, Wi-Fi losing {loss} %, LTE of {lte_bps / 1e6:.0f} Mbit/s"
        yield middle(f"{told}: staying", [run.staying_bps / 1e6 for run in those], "Mbit/s")
        ratios = [run.moved_bps / run.staying_bps for run in those]
        yield middle("  left to policies, of staying", ratios, "", at_least(WORTH))


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    rates = (f"{run.staying_bps / 1e6:.2f}", f"{run.moved_bps / 1e6:.2f}")
    yield run.sender, run.loss_percent, f"{run.lte_bps / 1e6:g}", *rates, run.ended_on, run.moves


def draw(runs: Sequence[Run], file: Path) -> Path:
    figure = Drawing(figsize=(5, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    good = [run for run in runs if not run.stalled]
    for sender, mark in zip(SENDERS, ("o", "x"), strict=True):
        those = [run for run in good if run.sender == sender]
        axes.plot([run.staying_bps / 1e6 for run in those], [run.moved_bps / 1e6 for run in those], mark, label=sender)
    axes.axline((0, 0), slope=1, linewidth=0.5)
    axes.set_xlabel("staying on Wi-Fi, Mbit/s")
    axes.set_ylabel("left to policies, Mbit/s")
    axes.legend()
    figure.savefig(file, dpi=120)
    return file


CAMPAIGN = Campaign("relay/moves", carry_out, figures, "runs", HEADER, rows, draw)
