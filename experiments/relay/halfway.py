"""What the product's own pair gains half way: gateway and relay with MPTCP and TLS between them, beside direct.

As the part `transfers` has it of paper 001's splice, with receive windows of some 64 KiB, and nothing lost. The window
is the kernel's own here, of all four machines, so it is not stated to the byte: gains are what counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Drawing

from controller.policy.paths.leg_throughput import Leg, throughput
from experiments.relay.cost.proxies import DIRECT, PAIR, ask, standing
from experiments.relay.cost.road import FAR, NEAR
from lab.results.campaign import Campaign
from lab.results.figures import Figure, at_most, middle
from lab.stage.stage import Stage

RECEIVE = "net.ipv4.tcp_rmem=4096 131072 131072"  # of which the half or a little more is the window
WINDOW_BYTES = 64 << 10
WAYS = ("up", "down")
OFF_PERCENT = 15.0
HEADER = ("rtt_ms", "way", "direct_mbit_s", "pair_mbit_s", "gain_percent")


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # its files in results/relay/halfway are named so
    rtts_ms: tuple[float, ...]  # of the direct way
    rounds: int
    seconds: float


QUICK, FULL = Plan("quick", (80.0, 300.0), 1, 5.0), Plan("full", (80.0, 120.0, 160.0, 230.0, 300.0), 5, 10.0)


@dataclass(frozen=True, slots=True)
class Run:
    rtt_ms: float
    way: str
    direct_bps: float
    pair_bps: float
    stalled: str

    @property
    def gain(self) -> float:
        return 100 * (self.pair_bps / self.direct_bps - 1)

    @property
    def off(self) -> float:
        """How far the rate that is predicted beside direct's is off, in percent."""
        half, whole = (throughput(Leg(self.rtt_ms / part), WINDOW_BYTES).bps for part in (2, 1))
        return 100 * (half / whole * self.direct_bps / self.pair_bps - 1)

    def __str__(self) -> str:
        rates = f"direct {self.direct_bps / 1e6:.2f}, by the pair {self.pair_bps / 1e6:.2f} Mbit/s"
        return f"{self.rtt_ms:.0f} ms, {self.way}: {rates} ({self.gain:+.0f} %); prediction off by {self.off:+.0f} %"


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


def carry_out(plan: Plan, _logs: Path) -> Iterator[Run]:
    for rtt_ms in plan.rtts_ms:
        with standing(rtt_ms / 4, (DIRECT, PAIR), RECEIVE) as (net, ways):
            for way in WAYS * plan.rounds:
                _stalled(net)  # from here on it counts
                direct, pair = (ask(net, "bulk", each, way, plan.seconds)[0] for each in ways)
                yield Run(rtt_ms, way, _bps(direct), _bps(pair), _stalled(net))


def _bps(told: dict[str, float]) -> float:
    return 8 * told["bytes"] / told["seconds"]


def _stalled(net: Stage) -> str:
    """Since this was last asked."""
    found = ((name, net.uplink(name).lateness()) for name in (NEAR, FAR))
    return "; ".join(f"on {name} {one}" for name, one in found if one.stalls > one.packets / 1000)


def figures(runs: Sequence[Run]) -> Iterator[Figure]:
    good = [each for each in runs if not each.stalled]
    for way in WAYS:
        for rtt_ms in dict.fromkeys(each.rtt_ms for each in good):
            gains = [each.gain for each in good if (each.way, each.rtt_ms) == (way, rtt_ms)]
            if gains:
                yield middle(f"the pair half way, {rtt_ms:.0f} ms, {way}: gain", gains, "%")
    if good:
        yield middle("predictions off by", [abs(each.off) for each in good], "%", at_most(OFF_PERCENT))


def rows(one: Run) -> Iterator[tuple[object, ...]]:
    yield one.rtt_ms, one.way, f"{one.direct_bps / 1e6:.4f}", f"{one.pair_bps / 1e6:.4f}", f"{one.gain:.2f}"


def draw(runs: Sequence[Run], file: Path) -> Path:
    drawing = Drawing(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(drawing)
    panel = drawing.subplots()
    for way in WAYS:
        good = [each for each in runs if not each.stalled and each.way == way]
        panel.plot([each.rtt_ms for each in good], [each.gain for each in good], "o", label=way)
    panel.axhline(100, color="grey", linestyle=":", label="what half the way promises")
    panel.set_ylim(0)
    panel.set_xlabel("direct RTT, ms")
    panel.set_ylabel("gain of the pair half way, %")
    panel.legend()
    drawing.savefig(file, dpi=100)
    return file


CAMPAIGN = Campaign("relay/halfway", carry_out, figures, "transfers", HEADER, rows, draw)
