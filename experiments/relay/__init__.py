# SPDX-License-Identifier: Apache-2.0
"""Measure cost and gain of papers 001 and 002's relay.

./bicast experiment relay            the short form of each part
./bicast experiment relay --full

`python -m experiments.relay PART ... [--full] [--json]` runs only these.

cost        gateway and relay, beside a direct connection and other proxies
halfway     their gain with a small window, half way on a long round trip
planet      paper 001's figures 7 to 10: three choices of relays, on a generated planet
transfers   its figures 5 and 6: gain over emulated links, and the prediction
parallel    one connection over two relays at once
moves       a download on a lossy Wi-Fi: left to policies, and kept
home        a terminal without MPTCP behind a bad Wi-Fi
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
