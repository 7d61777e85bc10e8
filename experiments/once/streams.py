"""What TCP makes of it: questions and answers over lossy paths, and an upload under which Wi-Fi is cut."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.laboratories.two_sites import Laboratory
from experiments.once.flows import EVERY_S, cutting
from experiments.once.plan import Losses
from lab.results.figures import percentile
from lab.stage.failure import ExperimentFailed
from lab.traffic.streaming import Streamed, streaming, till
from topologies.paper import SERVER
from topologies.twin import RATES_BPS

PROGRAM = [sys.executable, str(Path(__file__).with_name("questions.py"))]
PORT = 7500
RATE_PER_S = 200
LOSSES = Losses(10, 1)
STEADY_S = 2.0  # after an upload's beginning, in which its sender fills every queue


@dataclass(frozen=True, slots=True)
class Asked:
    mode: str
    took_s: Sequence[float]
    stalled: str

    def __str__(self) -> str:
        p50, p99, longest = (percentile(self.took_s, percent) * 1000 for percent in (50, 99, 100))
        head = f"{len(self.took_s)} questions, {LOSSES}, {self.mode}"
        return f"{head}: p50 {p50:.2f} ms, p99 {p99:.2f} ms, longest {longest:.0f} ms"


@dataclass(frozen=True, slots=True)
class Uploaded:
    mode: str
    queue_ms: float  # what waits on LTE when its queue is full
    moments: Sequence[float]  # of time.monotonic(), at which Wi-Fi was cut
    streamed: Streamed
    stalled: str

    def __str__(self) -> str:
        told = f"{self.bps / 1e6:.1f} Mbit/s before, longest pause at a cut {max(self.pauses_s) * 1000:.0f} ms"
        return f"an upload, {len(self.moments)} cuts, {self.mode}, {self.queue_ms:g} ms waiting on LTE: {told}"

    @property
    def bps(self) -> float:
        """Before the first cut."""
        return self.streamed.bps(self.moments[0] - EVERY_S, self.moments[0])

    @property
    def pauses_s(self) -> list[float]:
        """The longest at each cut, until Wi-Fi is healed."""
        return [self.streamed.longest_pause_s(moment, moment + EVERY_S) for moment in self.moments]


def asked(lab: Laboratory, mode: str, seconds: float) -> Asked:
    """The mode is in force already."""
    lab.lose(wifi=LOSSES.wifi_percent, lte=LOSSES.lte_percent)
    lab.stalled()  # from here on it counts
    with lab.server.popen([*PROGRAM, "answer", str(PORT)], stderr=None, text=True) as answering:
        try:
            assert answering.stdout is not None
            if answering.stdout.readline() != "ready\n":
                raise ExperimentFailed(f"server: `questions.py answer {PORT}` did not say 'ready'; its error is above")
            said = lab.client.run(*PROGRAM, "ask", SERVER, str(PORT), str(RATE_PER_S), str(seconds)).stdout
        finally:
            answering.kill()
    stalled = lab.stalled()
    lab.lose(wifi=0, lte=0)
    return Asked(mode, json.loads(said), stalled)


def uploaded(lab: Laboratory, mode: str, queue_ms: float, cuts: int) -> Uploaded:
    """The mode is in force already."""
    lab.forget()
    lte = lab.net.uplink("lte").forward
    before = lte.shape.queue_bytes
    lte.set(queue_bytes=round(RATES_BPS["lte"] * queue_ms / 8000))
    with streaming(lab.server, lab.client, SERVER, upload=True) as stream:
        stream.await_flowing()
        till(time.monotonic() + STEADY_S)
        lab.stalled()  # from here on it counts
        moments = list(cutting(lab, cuts))
        stalled = lab.stalled()
        streamed = stream.finish()
    lte.set(queue_bytes=before)
    return Uploaded(mode, queue_ms, moments, streamed, stalled)
