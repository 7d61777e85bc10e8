# SPDX-License-Identifier: Apache-2.0
"""Measure TCP over the two paths."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.laboratories.two_sites import Laboratory
from experiments.once.datagrams import CUT_S, UP, cut_repeatedly
from experiments.once.plan import Losses
from lab.processes.controller import LOOK_EVERY_S
from lab.results.figures import percentile
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.traffic.streaming import Streamed, streaming, till
from topologies.paper import SERVER
from topologies.twin import RATES_BPS

# The kernel's counters

# RFC 2883: the receiver reports a segment that it already had, delivered or still queued.
DSACKS = ("TcpExt:TCPDSACKRecv", "TcpExt:TCPDSACKOfoRecv")
# The sender undid its reaction: a retransmitted segment was not lost.
UNDO_COUNTERS = tuple(f"TcpExt:TCP{how}Undo" for how in ("Full", "Partial", "DSACK", "Loss"))


@dataclass(frozen=True, slots=True)
class FrameBytes:
    came: int
    left: int  # sent by the devices, without packets that wait in a queue or are lost before it


def segments(machine: Machine) -> Counter[str]:
    """Return the counters by group and name, as `nstat` joins them: Tcp:OutSegs."""
    found: Counter[str] = Counter()
    for table in ("snmp", "netstat"):
        lines = Path(f"/proc/{machine.pid}/net/{table}").read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            group, *words = names.split()
            numbers = zip(words, values.split()[1:], strict=True)
            found.update({group + name: int(value) for name, value in numbers})
    return found


def frame_bytes(*devices: str, pid: int | str = "self") -> FrameBytes:
    """Return the bytes of these devices together, in the namespace of this process."""
    came = left = 0
    for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]:
        name, _, words = line.partition(":")
        if name.strip() in devices:
            fields = words.split()
            came, left = came + int(fields[0]), left + int(fields[8])
    return FrameBytes(came, left)


# A bulk transfer over clean paths

BULK_STEADY_S = 1.0  # the sender looks for the rate


@dataclass(frozen=True, slots=True)
class BulkRun:
    how: str
    way: str
    bps: float
    segments: int  # with retransmits
    dsacks: int  # received by the sender
    retransmits: int
    spurious_reactions: int  # to supposed losses
    whole: bool
    stalled: str

    def __str__(self) -> str:
        told = f"{self.bps / 1e6:.1f} Mbit/s, {self.per_1000_segments(self.dsacks):.3g} DSACKs"
        retransmits = (
            f"{self.per_1000_segments(self.retransmits):.3g} retransmits of 1000, {self.spurious_reactions} spurious"
        )
        return f"a bulk transfer {self.way}, {self.how}: {told} and {retransmits}"

    def per_1000_segments(self, count: int) -> float:
        return 1000 * count / self.segments


def run_bulk(lab: Laboratory, how: str, way: str, seconds: float) -> BulkRun:
    lab.forget()
    sender = lab.client if way == UP else lab.server
    with streaming(lab.server, lab.client, SERVER, upload=way == UP) as stream:
        stream.await_flowing()
        till(time.monotonic() + BULK_STEADY_S)
        lab.stalled()  # forget earlier stalls
        before, began = segments(sender), time.monotonic()
        till(began + seconds)
        after, ended = segments(sender), time.monotonic()
        stalled = lab.stalled()
        streamed = stream.finish()
    more = after - before
    return BulkRun(
        how,
        way,
        streamed.bps(began, ended),
        more["Tcp:OutSegs"] + more["Tcp:RetransSegs"],
        sum(more[name] for name in DSACKS),
        more["Tcp:RetransSegs"],
        sum(more[name] for name in UNDO_COUNTERS),
        streamed.whole,
        stalled,
    )


# A download with a blackout of Wi-Fi

DOWNLOAD_BYTES = 48_800_000  # payload
FRAMES = 1.06  # frame bytes per payload byte
BLACK_S = 10.0
DOWNLOAD_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class BlackoutRun:
    mode: str
    moment: float  # time.monotonic() of the blackout
    wire_bytes: int  # of frames, both paths and ways
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


def run_blackout(lab: Laboratory, mode: str) -> BlackoutRun:
    lab.forget()
    uplinks = [uplink.port for site in lab.sites for uplink in site.uplinks]
    before = frame_bytes(*uplinks).left
    with streaming(lab.server, lab.client, SERVER) as stream:
        stream.await_flowing()
        lab.stalled()  # forget earlier stalls
        begun = _received_bytes(lab)
        _await_received(lab, begun + round(FRAMES * DOWNLOAD_BYTES / 2))
        moment = time.monotonic()
        lab.lose(wifi=100)
        till(moment + BLACK_S)
        lab.lose(wifi=0)
        _await_received(lab, begun + round(FRAMES * DOWNLOAD_BYTES))
        stalled = lab.stalled()
        streamed = stream.finish()
    return BlackoutRun(mode, moment, frame_bytes(*uplinks).left - before, streamed, stalled)


def _received_bytes(lab: Laboratory) -> int:
    devices: Sequence[str] = lab.client.intfNames()
    return frame_bytes(*devices, pid=lab.client.pid).came


def _await_received(lab: Laboratory, wanted: int) -> None:
    deadline = time.monotonic() + DOWNLOAD_WITHIN_S
    while _received_bytes(lab) < wanted:
        if time.monotonic() > deadline:
            raise ExperimentFailed(
                f"client: only {_received_bytes(lab) / 1e6:.0f} of {wanted / 1e6:.0f} MB in {DOWNLOAD_WITHIN_S:.0f} s"
            )
        till(time.monotonic() + LOOK_EVERY_S)


# Requests, and an upload under cuts

PROGRAM = [sys.executable, str(Path(__file__).with_name("questions.py"))]
PORT = 7500
RATE_PER_S = 200
LOSSES = Losses(10, 1)
UPLOAD_STEADY_S = 2.0  # the sender fills every queue


@dataclass(frozen=True, slots=True)
class RequestRun:
    mode: str
    took_s: Sequence[float]
    stalled: str

    def __str__(self) -> str:
        p50, p99, longest = (percentile(self.took_s, percent) * 1000 for percent in (50, 99, 100))
        head = f"{len(self.took_s)} questions, {LOSSES}, {self.mode}"
        return f"{head}: p50 {p50:.2f} ms, p99 {p99:.2f} ms, longest {longest:.0f} ms"


@dataclass(frozen=True, slots=True)
class UploadRun:
    mode: str
    queue_ms: float  # of LTE's full queue
    moments: Sequence[float]  # time.monotonic() of cuts
    streamed: Streamed
    stalled: str

    def __str__(self) -> str:
        told = f"{self.bps / 1e6:.1f} Mbit/s before, longest pause at a cut {max(self.pauses_s) * 1000:.0f} ms"
        return f"an upload, {len(self.moments)} cuts, {self.mode}, {self.queue_ms:g} ms waiting on LTE: {told}"

    @property
    def bps(self) -> float:
        """Return the rate before the first cut."""
        return self.streamed.bps(self.moments[0] - CUT_S, self.moments[0])

    @property
    def pauses_s(self) -> list[float]:
        return [self.streamed.longest_pause_s(moment, moment + CUT_S) for moment in self.moments]


def run_requests(lab: Laboratory, mode: str, seconds: float) -> RequestRun:
    lab.lose(wifi=LOSSES.wifi_percent, lte=LOSSES.lte_percent)
    lab.stalled()  # forget earlier stalls
    with lab.server.popen([*PROGRAM, "answer", str(PORT)], stderr=None, text=True) as answering:
        try:
            assert answering.stdout is not None
            if answering.stdout.readline() != "ready\n":
                raise ExperimentFailed(
                    f"server: `questions.py answer {PORT}` did not print 'ready'; its error is above"
                )
            output = lab.client.run(*PROGRAM, "ask", SERVER, str(PORT), str(RATE_PER_S), str(seconds)).stdout
        finally:
            answering.kill()
    stalled = lab.stalled()
    lab.lose(wifi=0, lte=0)
    return RequestRun(mode, json.loads(output), stalled)


def run_upload(lab: Laboratory, mode: str, queue_ms: float, cuts: int) -> UploadRun:
    lab.forget()
    lte = lab.net.uplink("lte").forward
    before = lte.shape.queue_bytes
    lte.set(queue_bytes=round(RATES_BPS["lte"] * queue_ms / 8000))
    with streaming(lab.server, lab.client, SERVER, upload=True) as stream:
        stream.await_flowing()
        till(time.monotonic() + UPLOAD_STEADY_S)
        lab.stalled()  # forget earlier stalls
        moments = list(cut_repeatedly(lab, cuts))
        stalled = lab.stalled()
        streamed = stream.finish()
    lte.set(queue_bytes=before)
    return UploadRun(mode, queue_ms, moments, streamed, stalled)
