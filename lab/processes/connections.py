# SPDX-License-Identifier: Apache-2.0
"""The live MPTCP connections of a machine, read and moved by build/bicast-agent."""

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
WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Subflow:
    """One subflow, by the client's address."""

    client: str
    backup: bool  # as either end has it
    delivered_bytes: int  # both directions together


def mptcp(machine: Machine, *words: str) -> Done:
    """One of the words of `bicast mptcp`, in this machine's namespace."""
    return command.run(AGENT, "mptcp", *words, "--netns", netns(machine), where=machine.name)


def netns(machine: Machine) -> str:
    return f"/proc/{machine.pid}/ns/net"


def paths(server: Machine) -> list[Subflow]:
    """Of the one stream's connection, as its serving end has them; none while there is none."""
    found: list[Subflow] = []
    for connection in json.loads(mptcp(server, "list", "--json").stdout):
        for one in connection["subflows"]:
            if connection["serves"] and one["local_port"] == PORT and one["established"]:
                backup = one["backup_by_us"] or one["backup_by_peer"]
                found.append(Subflow(one["remote_address"], backup, one["bytes_acked"] + one["bytes_received"]))
    return found


def await_paths(server: Machine, *clients: str) -> list[Subflow]:
    """Until a subflow stands from each of these addresses, and none else."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        found = paths(server)
        if sorted(one.client for one in found) == sorted(clients):
            return found
        if time.monotonic() > deadline:
            raise ExperimentFailed(
                f"{server.name}: within {WITHIN_S:.0f} s no stream had subflows from {' and '.join(clients)}, "
                f"but {found}"
            )


def await_none(machine: Machine) -> None:
    """Until it has no MPTCP connection: the last one closes some round trips after both programs have ended."""
    deadline = time.monotonic() + WITHIN_S
    while any(one["subflows"] for one in json.loads(mptcp(machine, "list", "--json").stdout)):
        if time.monotonic() > deadline:
            raise ExperimentFailed(f"{machine.name}: its last stream ended {WITHIN_S:.0f} s ago, and is not closed")
        till(time.monotonic() + LOOK_EVERY_S)
