"""What a terminal's one connection gets by two relays at once, each on a way of its own, beside one relay.

The home is that of topologies/home.py. What each relay sends there has a rate of its own, and Wi-Fi carries more than
both; between relays and server nothing is narrow, for all of a connection passes the relay that serves it. The terminal
keeps to Wi-Fi; with the one relay gone the other is alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Drawing

from experiments.laboratories.home import RelayedHome, relayed_home
from lab.results.campaign import Campaign
from lab.results.figures import Figure, at_least, middle
from lab.traffic.web import download
from topologies.home import RELAYS

WAY_BPS = 20_000_000
QUEUE_PACKETS = 100
GAIN = 1.8
TERMINAL, ALONE, ACTIVE = "television", "tokyo", "wifi"
ONE, TWO = 1, 2
HEADER = ("relays", "mbit_s", "whole")


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # its files in results/relay/parallel are named so
    rounds: int
    size_bytes: int


QUICK, FULL = Plan("quick", 3, 15_000_000), Plan("full", 10, 50_000_000)


@dataclass(frozen=True, slots=True)
class Run:
    relays: int
    bps: float
    whole: bool  # what came is what was sent
    stalled: str

    def __str__(self) -> str:
        broken = "" if self.whole else "; WHAT CAME IS NOT WHAT WAS SENT"
        return f"by {self.relays} of 2 relays: {self.bps / 1e6:.1f} Mbit/s{broken}"


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


def carry_out(plan: Plan, _logs: Path) -> Iterator[Run]:
    with relayed_home(relays=tuple(RELAYS), at_once=True) as home:
        _narrow(home)
        home.pin(TERMINAL, "single", ACTIVE)
        home.await_passed_on(TERMINAL)
        yield from (_downloaded(home, TWO, plan) for _ in range(plan.rounds))
        for name in RELAYS:
            if name != ALONE:
                home.controller.client.remove_relay(name)
        home.await_relayed(TERMINAL, ALONE)
        yield from (_downloaded(home, ONE, plan) for _ in range(plan.rounds))


def _narrow(home: RelayedHome) -> None:
    """The way home from each relay, by the relay's address."""
    exchange, rate = home.machine("exchange"), f"{WAY_BPS}bit"
    exchange.run("tc", "qdisc", "add", "dev", "core", "root", "handle", "1:", "htb")
    for number, address in enumerate(RELAYS.values(), 1):
        way = f"1:{number}"
        exchange.run("tc", "class", "add", "dev", "core", "parent", "1:", "classid", way, "htb", "rate", rate)
        exchange.run("tc", "qdisc", "add", "dev", "core", "parent", way, "pfifo", "limit", str(QUEUE_PACKETS))
        match = ("u32", "match", "ip", "src", f"{address}/32", "flowid", way)
        exchange.run("tc", "filter", "add", "dev", "core", "parent", "1:", "protocol", "ip", *match)


def _downloaded(home: RelayedHome, relays: int, plan: Plan) -> Run:
    home.forget()
    file = home.web.offer("file", plan.size_bytes)
    home.stalled()  # from here on it counts
    got = download(home.machine(TERMINAL), file.url, mptcp=False)
    stalled = home.stalled() or _directly(home)
    return Run(relays, plan.size_bytes * 8 / got.seconds, got.sha256 == file.sha256, stalled)


def _directly(home: RelayedHome) -> str:
    """A relay whose host is busy with other things is left: here all hosts are one."""
    return "" if home.seen(TERMINAL) in RELAYS.values() else "it went directly, for relays were busy"


def figures(runs: Sequence[Run]) -> Iterator[Figure]:
    good = [one for one in runs if not one.stalled and one.whole]
    by = {relays: [one.bps / 1e6 for one in good if one.relays == relays] for relays in (ONE, TWO)}
    for relays, rates in by.items():
        if rates:
            yield middle(f"one download by {relays} of 2 relays, each on {WAY_BPS / 1e6:.0f} Mbit/s", rates, "Mbit/s")
    if all(by.values()):
        yield middle("  by two, of by one", [each / median(by[ONE]) for each in by[TWO]], "", at_least(GAIN))


def draw(runs: Sequence[Run], file: Path) -> Path:
    figure = Drawing(figsize=(5, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    good = [one for one in runs if not one.stalled]
    axes.plot([one.relays for one in good], [one.bps / 1e6 for one in good], "o")
    axes.set_xticks((ONE, TWO))
    axes.set_xlabel("relays")
    axes.set_ylabel("Mbit/s")
    axes.set_ylim(bottom=0)
    figure.savefig(file, dpi=120)
    return file


def rows(one: Run) -> Iterator[tuple[object, ...]]:
    yield one.relays, f"{one.bps / 1e6:.3f}", "yes" if one.whole else "no"


CAMPAIGN = Campaign("relay/parallel", carry_out, figures, "runs", HEADER, rows, draw)
