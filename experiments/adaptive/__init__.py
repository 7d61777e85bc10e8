# SPDX-License-Identifier: Apache-2.0
"""Copies only when they pay: mode auto beside copies always and never, while Wi-Fi goes from clean to dead and back.

./bicast experiment adaptive            phases of 15 s, three rounds in each mode
./bicast experiment adaptive --full     phases of a minute, likewise

A camera's 4 Mbit/s go up over MPTCP between the two sites of topologies/twin.py, with an agent at each and at the
client; Wi-Fi of 100 Mbit/s and 20 ms there and back, LTE of 10 Mbit/s and 50 ms. An upload, because what is copied
then are data: that is what copies cost on LTE, and what they are worth. A rate of its own, because what a bulk
transfer gets over a lossy path is a matter of luck, and an LTE slower than it would not carry its copies anyway.
Wi-Fi is the active uplink by somebody's wish in all modes, so that they differ in copies alone.

Then a download under a budget of LTE, in the paper's laboratory: its acknowledgements are copied, and counted where
they come out of LTE.
"""

from __future__ import annotations

import argparse

from experiments.adaptive.measure import carry_out
from experiments.adaptive.plan import FULL, QUICK
from experiments.adaptive.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("adaptive", carry_out, figures, "phases", HEADER, rows, draw)
