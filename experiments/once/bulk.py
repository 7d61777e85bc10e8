"""A bulk transfer over clean paths: what its sender makes of copies that come, and of those that do not."""

from __future__ import annotations

import time
from dataclasses import dataclass

from experiments.laboratories.two_sites import Laboratory
from experiments.once.counters import DSACKS, UNDONE, segments
from experiments.once.flows import UP
from lab.traffic.streaming import streaming, till
from topologies.paper import SERVER

STEADY_S = 1.0  # after its beginning, in which its sender looks for the rate


@dataclass(frozen=True, slots=True)
class Carried:
    how: str
    way: str
    bps: float
    segments: int  # that its sender has sent, with those that it sent again
    dsacks: int  # that came back to it
    again: int
    undone: int  # reactions to losses that were none
    whole: bool
    stalled: str

    def __str__(self) -> str:
        told = f"{self.bps / 1e6:.1f} Mbit/s, {self.of_thousand(self.dsacks):.3g} DSACKs"
        again = f"{self.of_thousand(self.again):.3g} sent again of 1000 segments, {self.undone} times in vain"
        return f"a bulk transfer {self.way}, {self.how}: {told} and {again}"

    def of_thousand(self, count: int) -> float:
        return 1000 * count / self.segments


def carried(lab: Laboratory, how: str, way: str, seconds: float) -> Carried:
    """The mode is in force already."""
    lab.forget()
    sender = lab.client if way == UP else lab.server
    with streaming(lab.server, lab.client, SERVER, upload=way == UP) as stream:
        stream.await_flowing()
        till(time.monotonic() + STEADY_S)
        lab.stalled()  # from here on it counts
        before, began = segments(sender), time.monotonic()
        till(began + seconds)
        after, ended = segments(sender), time.monotonic()
        stalled = lab.stalled()
        streamed = stream.finish()
    more = after - before
    return Carried(
        how,
        way,
        streamed.bps(began, ended),
        more["Tcp:OutSegs"] + more["Tcp:RetransSegs"],
        sum(more[name] for name in DSACKS),
        more["Tcp:RetransSegs"],
        sum(more[name] for name in UNDONE),
        streamed.whole,
        stalled,
    )
