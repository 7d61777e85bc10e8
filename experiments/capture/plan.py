# SPDX-License-Identifier: Apache-2.0
"""Plan one conversation."""

from __future__ import annotations

from dataclasses import dataclass

from lab.processes.controller import TREE
from lab.results import RESULTS

DIRECTORY = RESULTS / "capture"
FILE = TREE / "topologies" / "paper.yaml"
PORT = 4000
WORDS = 12
PLACES = {
    "client": ("client", "any"),
    "router-wifi": ("router", "wifi"),
    "router-lte": ("router", "lte"),
    "server": ("server", "lan"),
}


@dataclass(frozen=True, slots=True)
class Switcher:
    """The end whose agent switches the active subflow."""

    machine: str
    role: str  # its agent's
    lte_backup: bool  # at the start: a server cannot clear a client's flag


SWITCHERS = (Switcher("client", "terminal", True), Switcher("server", "relay", False))  # the paper's is the server

WIFI_ENDPOINT, LTE_ENDPOINT = "1", "2"  # topology's order

BEFORE, AFTER = "192.168.110.3", "192.168.210.3"  # address of the active subflow
