"""Paper 001's figures 7 to 10: which relay is found by ping, by routers and by us, for all pairs of 50 and of 45 hosts.

The hosts, the networks between them, their borders and their policies are generated (places.py, networks.py), RTTs and
traceroutes come from the same graph (routes.py, readings.py), and nothing of it is set by the paper's counts. Each seed
is a planet of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.relay.planet import plot
from experiments.relay.planet.choices import Run, chosen
from experiments.relay.planet.places import SETS
from experiments.relay.planet.results import HEADER, figures, rows
from lab.results.campaign import Campaign


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # its files in results/relay/planet are named so
    planets: int


QUICK, FULL = Plan("quick", 3), Plan("full", 20)


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


def carry_out(plan: Plan, _logs: Path) -> Iterator[Run]:
    for seed in range(1, plan.planets + 1):
        yield from (chosen(name, seed) for name in SETS)


def _sentence(_plan: Plan, one: Run) -> str:
    return str(one)


CAMPAIGN = Campaign("relay/planet", carry_out, _sentence, figures, "pairs", HEADER, rows, plot.draw)
