# SPDX-License-Identifier: Apache-2.0
"""Pings between two sites: how many are answered, and how many answers are duplicates."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.system.conftest import GatewayLab
from tests.system.evidence import pings
from topologies.paper import SERVER

PINGS = 200


def pinged(home: GatewayLab, source: str, target: str = SERVER) -> tuple[int, int]:
    """Return how many pings were answered, and how many answers were duplicates."""
    said = pings(home.net.machine("client"), source, target, "-i", "0.01", count=PINGS)
    answered = {int(number) for number in re.findall(r"bytes from .*icmp_seq=(\d+)", said)}
    print(said, json.dumps({site: copies(home, site) for site in ("home", "far")}))  # shown when a test fails
    return sum(number <= PINGS for number in answered), said.count("DUP!")


def copies(home: GatewayLab, site: str) -> dict[str, Any]:
    gateways = {one["name"]: one for one in home.controller.client.get("status")["gateways"]}
    return {one["name"]: one for one in gateways[site]["copies"]["paths"]}


@contextmanager
def pinging(home: GatewayLab, source: str) -> Iterator[Callable[[], str]]:
    """Ping during the block. The yielded function returns the output after it."""
    words = ["ping", "-i", "0.02", "-I", source, SERVER]
    process = home.net.machine("client").popen(words, stdout=subprocess.PIPE, text=True)
    said: list[str] = []
    try:
        yield lambda: said[0]
    finally:
        process.send_signal(signal.SIGINT)
        said.append(process.communicate()[0])


def assert_each_once(said: str) -> None:
    """Assert that no answer is lost or duplicated. The last one may be in flight."""
    answered = [int(number) for number in re.findall(r"icmp_seq=(\d+)", said)]
    assert sorted(answered) == list(range(1, len(answered) + 1)), said
