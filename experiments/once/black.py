"""A long download in whose middle Wi-Fi goes black for a while: how long it stalls, and what it puts on the wires."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.laboratories.two_sites import Laboratory
from experiments.once.counters import moved
from lab.processes.controller import LOOK_EVERY_S
from lab.stage.failure import ExperimentFailed
from lab.traffic.streaming import Streamed, streaming, till
from topologies.paper import SERVER

BYTES = 48_800_000  # of payload
FRAMES = 1.06  # bytes of frames for one of payload
BLACK_S = 10.0
WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Blackened:
    mode: str
    moment: float  # of time.monotonic(), at which Wi-Fi went black
    wire_bytes: int  # of frames, by both paths and both ways
    streamed: Streamed
    stalled: str

    def __str__(self) -> str:
        told = f"{self.wire_percent:.0f} % of it on the wires, longest stall {self.stall_s * 1000:.0f} ms"
        return f"{self.payload_bytes / 1e6:.1f} MB, Wi-Fi black in the middle, {self.mode}: {told}"

    @property
    def payload_bytes(self) -> float:
        return self.streamed.sizes[-1]

    @property
    def wire_percent(self) -> float:
        return 100 * self.wire_bytes / self.payload_bytes

    @property
    def stall_s(self) -> float:
        return self.streamed.longest_pause_s(self.moment)


def blackened(lab: Laboratory, mode: str) -> Blackened:
    """The mode is in force already."""
    lab.forget()
    uplinks = [uplink.port for site in lab.sites for uplink in site.uplinks]
    before = moved(*uplinks).left
    with streaming(lab.server, lab.client, SERVER) as stream:
        stream.await_flowing()
        lab.stalled()  # from here on it counts
        begun = _came(lab)
        _await_come(lab, begun + round(FRAMES * BYTES / 2))
        moment = time.monotonic()
        lab.lose(wifi=100)
        till(moment + BLACK_S)
        lab.lose(wifi=0)
        _await_come(lab, begun + round(FRAMES * BYTES))
        stalled = lab.stalled()
        streamed = stream.finish()
    return Blackened(mode, moment, moved(*uplinks).left - before, streamed, stalled)


def _came(lab: Laboratory) -> int:
    devices: Sequence[str] = lab.client.intfNames()
    return moved(*devices, pid=lab.client.pid).came


def _await_come(lab: Laboratory, wanted: int) -> None:
    """Bytes of frames."""
    deadline = time.monotonic() + WITHIN_S
    while _came(lab) < wanted:
        if time.monotonic() > deadline:
            raise ExperimentFailed(
                f"client: within {WITHIN_S:.0f} s only {_came(lab) / 1e6:.0f} MB came, of {wanted / 1e6:.0f}"
            )
        till(time.monotonic() + LOOK_EVERY_S)
