# SPDX-License-Identifier: Apache-2.0
"""Repeat paper 001's figures 7 to 10: relays by ping, traceroute and us, for 50 and 45 hosts.

Networks, borders and policies are generated from a seed (places.py, networks.py). RTTs and traceroutes come from the
same graph (routes.py, readings.py). Nothing is fitted to the paper's counts.
"""

from __future__ import annotations

import argparse

from experiments.relay.planet.measure import carry_out
from experiments.relay.planet.plan import FULL, QUICK
from experiments.relay.planet.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("relay/planet", carry_out, figures, "pairs", HEADER, rows, draw)
