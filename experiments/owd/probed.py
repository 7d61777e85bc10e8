"""What `bicast-agent probe` writes (docs/probe.md), as the estimators take it."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from controller.policy.bandwidth import Samples
from controller.policy.lines import Numbers
from experiments import ExperimentFailed

HEADERS_BYTES = 42  # of Ethernet, IPv4 and UDP
FIELDS = ("train", "length", "sent_ns", "received_ns", "answered_ns", "heard_ns")
TIMES = FIELDS[2:]


@dataclass(frozen=True, slots=True)
class Probed:
    """Packets alone, and trains of packets: when they arrived, and their bytes on the wire."""

    sent: int
    samples: Samples
    trains: tuple[tuple[Numbers, Numbers], ...]


def read(text: str) -> Probed:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    if not rows or tuple(rows[0]) != FIELDS:
        raise ExperimentFailed(f"the probe wrote {lines[:1]}, expected lines of {', '.join(FIELDS)}")
    alone = [row for row in rows if row["train"] == "0"]
    return Probed(len(alone), _samples(alone), tuple(_trains(rows)))


def _samples(rows: Sequence[dict[str, str]]) -> Samples:
    """From the first packet's sending on, or nanoseconds since 1970 would not fit into a double."""
    came = [row for row in rows if row["sent_ns"] and row["received_ns"]]
    if not came:
        raise ExperimentFailed(
            "of all that was probed with nothing came: is the far end's `bicast-agent reflect` there?"
        )
    origin = int(came[0]["sent_ns"])
    table = np.array([[int(row["length"]), *(_since(origin, row[name]) for name in TIMES)] for row in came])
    return Samples(*table.T)


def _since(origin: int, moment_ns: str) -> float:
    return (int(moment_ns) - origin) / 1e9 if moment_ns else math.nan


def _trains(rows: Sequence[dict[str, str]]) -> Iterator[tuple[Numbers, Numbers]]:
    trains: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        if row["train"] != "0" and row["received_ns"]:
            trains[row["train"]].append((int(row["received_ns"]), int(row["length"])))
    for packets in trains.values():
        packets.sort()
        moments = np.array([(at - packets[0][0]) / 1e9 for at, _ in packets])
        yield moments, np.array([length + HEADERS_BYTES for _, length in packets], dtype=float)
