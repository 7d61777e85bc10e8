"""What an end of a stream saw on the wire: when MP_PRIO left or came, and when data came by which path."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from lab.processes.capture import captured
from lab.stage import command
from lab.stage.nodes import Machine
from lab.traffic.streaming import PORT
from topologies.paper import SERVER

MP_PRIO = "5"  # RFC 8684, 3.3.8
SNAPPED_BYTES = 128  # link, IPv4 and TCP with all its options
FIELDS = ("frame.time_epoch", "ip.src", "ip.dst", "ip.id", "tcp.len", "tcp.options.mptcp.subtype")


@dataclass(slots=True)
class Seen:
    """Moments of time.monotonic(), in order; paths by the client's address."""

    data: dict[str, list[float]] = field(default_factory=dict)
    priorities: list[float] = field(default_factory=list)  # a gateway's copies of one are one
    known: set[tuple[str, str]] = field(default_factory=set)  # by sender and IP identification

    def first_data(self, path: str, since: float, until: float, silent_s: float) -> float | None:
        """None: what it carried before was still coming within `silent_s` before, or nothing came."""
        moments = self.data.get(path, [])
        if any(since - silent_s < moment <= since for moment in moments):
            return None
        return next((moment for moment in moments if since < moment < until), None)

    def last_data(self, path: str, since: float, until: float) -> float | None:
        return max((moment for moment in self.data.get(path, []) if since < moment < until), default=None)


def seen_by(machine: Machine, file: Path, packets: str = "tcp") -> AbstractContextManager[None]:
    """Into this file; `packets` is tcpdump's word for them, the stream's port to be put behind it."""
    return captured(machine, file, f"{packets} port {PORT}", SNAPPED_BYTES, "-i", "any", "-B", "8192")


def read(file: Path) -> Seen:
    fields = [word for name in FIELDS for word in ("-e", name)]
    told = command.run("tshark", "-n", "-r", str(file), "-T", "fields", *fields, where=str(file)).stdout
    offset_s = time.time() - time.monotonic()
    seen = Seen()
    for line in told.splitlines():
        _note(seen, line.split("\t"), offset_s)
    return seen


def _note(seen: Seen, words: Sequence[str], offset_s: float) -> None:
    at, source, destination, identity, payload_bytes, subtypes = words
    moment = float(at) - offset_s
    if MP_PRIO in subtypes.split(",") and (source, identity) not in seen.known:
        seen.known.add((source, identity))
        seen.priorities.append(moment)
    if source == SERVER and int(payload_bytes or 0):
        seen.data.setdefault(destination, []).append(moment)
