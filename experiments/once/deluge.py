"""A deluge of numbered packets through the program itself, by two paths that delay them and lose bursts of them.

Sent and counted by agent/elimination/deluge_test.go, over devices of its own: no switch keeps that pace here.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.processes.controller import TREE
from lab.stage import isolate
from lab.stage.command import run
from lab.stage.failure import ExperimentFailed

GO = TREE / "setup" / "go.sh"
TEST = "TestOfADelugeByTwoBadPathsNothingIsLostByElimination"
LONGEST = "20m"


@dataclass(frozen=True, slots=True)
class Deluged:
    """Numbers of packets; as Go tells them."""

    sent: int
    lost_by_both: int  # paths
    delivered: int
    lost_by_elimination: int
    duplicated: int
    late: int
    rogue: int
    evicted: int
    window_ms: float
    room_before: int  # identities
    room: int
    seconds: float
    stalled: str = ""  # nothing that is counted depends on time

    def __str__(self) -> str:
        told = f"{self.lost_by_both} lost by both paths, {self.lost_by_elimination} by elimination"
        room = f"window {self.window_ms:.0f} ms, room for {self.room_before} packets and in the end for {self.room}"
        return f"{self.sent} packets in {self.seconds:.0f} s: {told}, {self.duplicated} duplicated; {room}"


def deluged(packets: int) -> Deluged:
    with tempfile.TemporaryDirectory(prefix="deluge-", dir=isolate.RUN_DIRECTORY) as place:
        told = Path(place) / "told"
        words = ("test", "-count=1", f"-timeout={LONGEST}", "-run", f"^{TEST}$", "./agent/elimination", "-args")
        many = ("-packets", str(packets), "-told", str(told))
        done = run(
            str(GO), "-C", str(TREE), *words, *many, check=False
        )  # that packets are lost is for the figures to say
        if not told.exists():
            raise ExperimentFailed(
                f"the deluge of {packets} packets came to no end, but to: {done.stdout}{done.stderr}"
            )
        return Deluged(**json.loads(told.read_text(encoding="utf-8")))
