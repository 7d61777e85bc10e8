# SPDX-License-Identifier: Apache-2.0
"""Measure cost and gain of papers 001 and 002's relay. Each part has a package."""

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
