# SPDX-License-Identifier: Apache-2.0
"""Everything copied in both directions, and of all copies one: what is still lost, what comes twice, what it is worth.

./bicast experiment once            a deluge through the program alone; then pings, datagrams over a grid of losses,
                                    questions and answers, cuts of Wi-Fi, bulk with copies and without, a download
                                    under a black path, silent deaths; and through tunnels pings, bulk,
                                    another outer address
./bicast experiment once --full     more losses and more of each; the deluge is of ten million packets

Two sites with an agent at each, Wi-Fi of 100 Mbit/s and LTE of 10 Mbit/s between them, modes in turns. What rides one
path alone rides Wi-Fi. Pings are judged by the criteria of the kernel's selftest of HSR. Tunnels are those of
topologies/natted.py, each through a NAT of its own.
"""

from __future__ import annotations

import argparse

from experiments.once.measure import carry_out
from experiments.once.plan import FULL, QUICK
from experiments.once.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("once", carry_out, figures, "runs", HEADER, rows, draw)
