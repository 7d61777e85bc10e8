# SPDX-License-Identifier: Apache-2.0
"""Read and move live MPTCP connections with build/bicast-agent."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from lab.processes.controller import LOOK_EVERY_S, TREE
from lab.stage import command
from lab.stage.command import Done
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.traffic.streaming import PORT, till

AGENT = str(TREE / "build" / "bicast-agent")
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class SubflowState:
    """One subflow, named by the client's address."""

    client: str
    backup: bool  # flagged by either end
    delivered_bytes: int  # both directions


def mptcp(machine: Machine, *words: str) -> Done:
    return command.run(AGENT, "mptcp", *words, "--netns", netns(machine), where=machine.name)


def netns(machine: Machine) -> str:
    return f"/proc/{machine.pid}/ns/net"


def paths(server: Machine) -> list[SubflowState]:
    """Return the only stream's subflows."""
    found: list[SubflowState] = []
    for connection in json.loads(mptcp(server, "list", "--json").stdout):
        for one in connection["subflows"]:
            if connection["serves"] and one["local_port"] == PORT and one["established"]:
                backup = one["backup_by_us"] or one["backup_by_peer"]
                found.append(SubflowState(one["remote_address"], backup, one["bytes_acked"] + one["bytes_received"]))
    return found


def await_paths(server: Machine, *clients: str) -> list[SubflowState]:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        found = paths(server)
        if sorted(one.client for one in found) == sorted(clients):
            return found
        if time.monotonic() > deadline:
            raise ExperimentFailed(
                f"{server.name}: expected a stream with subflows from {' and '.join(clients)} in {TIMEOUT_S:.0f} s, "
                f"found {found}"
            )


def await_none(machine: Machine) -> None:
    """Wait until the machine has no MPTCP connection: the last one closes some round trips after both programs end."""
    deadline = time.monotonic() + TIMEOUT_S
    while any(one["subflows"] for one in json.loads(mptcp(machine, "list", "--json").stdout)):
        if time.monotonic() > deadline:
            raise ExperimentFailed(
                f"{machine.name}: its last stream ended {TIMEOUT_S:.0f} s ago and is still not closed"
            )
        till(time.monotonic() + LOOK_EVERY_S)
