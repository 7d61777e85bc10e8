# SPDX-License-Identifier: Apache-2.0
"""Papers 001 and 002's relay: what it costs, and what it gains.

./bicast experiment relay            the short form of each part
./bicast experiment relay --full

`python -m experiments.relay PART ... [--full] [--json]` runs these parts alone; with --json each part is a document.

cost        the pair of gateway and relay beside a direct connection and beside others' proxies
halfway     what this pair gains where it halves a long round trip, with a small window
planet      paper 001's figures 7 to 10: which relay is found, in three ways, on a generated planet
transfers   its figures 5 and 6: what a relay gains, by real transfers over emulated links, and what was predicted
parallel    one connection by two relays at once
moves       a download on a lossy Wi-Fi: left to policies, and kept on Wi-Fi
home        a terminal without MPTCP behind a bad Wi-Fi: carried to a relay in each mode, or left alone
"""

from __future__ import annotations

import argparse
from importlib import import_module

from lab.stage import isolate

PARTS = ("cost", "halfway", "planet", "transfers", "parallel", "moves", "home")


def run(args: argparse.Namespace) -> int:
    isolate.enter()
    for part in getattr(args, "parts", None) or PARTS:
        import_module(f"experiments.relay.{part}").run(args)
    return 0
