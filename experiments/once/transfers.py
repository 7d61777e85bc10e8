# SPDX-License-Identifier: Apache-2.0
"""TCP over the two paths: bulk, a download under a black Wi-Fi, questions and answers, uploads under cuts."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.laboratories.two_sites import Laboratory
from experiments.once.datagrams import CUT_S, UP, cutting
from experiments.once.plan import Losses
from lab.processes.controller import LOOK_EVERY_S
from lab.results.figures import percentile
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.traffic.streaming import Streamed, streaming, till
from topologies.paper import SERVER
from topologies.twin import RATES_BPS

# The kernel's counters: of TCP in a machine's namespace, and of bytes by device.

# RFC 2883: the receiver says that a segment came which it had; twice of what it has delivered, twice of what waits.
DSACKS = ("TcpExt:TCPDSACKRecv", "TcpExt:TCPDSACKOfoRecv")
# The sender has found out that what it sent again was not lost, and takes the reaction to it back.
UNDONE = tuple(f"TcpExt:TCP{how}Undo" for how in ("Full", "Partial", "DSACK", "Loss"))


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes of frames."""

    came: int
    left: int  # what a queue or a loss has taken is not among them


def segments(machine: Machine) -> Counter[str]:
    """By group and name, as `nstat` joins them: Tcp:OutSegs."""
    found: Counter[str] = Counter()
    for table in ("snmp", "netstat"):
        lines = Path(f"/proc/{machine.pid}/net/{table}").read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            group, *words = names.split()
            numbers = zip(words, values.split()[1:], strict=True)
            found.update({group + name: int(value) for name, value in numbers})
    return found


def moved(*devices: str, pid: int | str = "self") -> Moved:
    """By these devices together, of the namespace that this process is in."""
    came = left = 0
    for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]:
        name, _, words = line.partition(":")
        if name.strip() in devices:
            fields = words.split()
            came, left = came + int(fields[0]), left + int(fields[8])
    return Moved(came, left)


# A bulk transfer over clean paths, with copies and without.

BULK_STEADY_S = 1.0  # after its beginning, in which its sender looks for the rate


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
        till(time.monotonic() + BULK_STEADY_S)
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


# A long download, in the middle of which Wi-Fi goes black for a while.

DOWNLOAD_BYTES = 48_800_000  # of payload
FRAMES = 1.06  # bytes of frames for one of payload
BLACK_S = 10.0
DOWNLOAD_WITHIN_S = 120.0


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
        _await_come(lab, begun + round(FRAMES * DOWNLOAD_BYTES / 2))
        moment = time.monotonic()
        lab.lose(wifi=100)
        till(moment + BLACK_S)
        lab.lose(wifi=0)
        _await_come(lab, begun + round(FRAMES * DOWNLOAD_BYTES))
        stalled = lab.stalled()
        streamed = stream.finish()
    return Blackened(mode, moment, moved(*uplinks).left - before, streamed, stalled)


def _came(lab: Laboratory) -> int:
    devices: Sequence[str] = lab.client.intfNames()
    return moved(*devices, pid=lab.client.pid).came


def _await_come(lab: Laboratory, wanted: int) -> None:
    """Bytes of frames."""
    deadline = time.monotonic() + DOWNLOAD_WITHIN_S
    while _came(lab) < wanted:
        if time.monotonic() > deadline:
            raise ExperimentFailed(
                f"client: within {DOWNLOAD_WITHIN_S:.0f} s only {_came(lab) / 1e6:.0f} MB came, of {wanted / 1e6:.0f}"
            )
        till(time.monotonic() + LOOK_EVERY_S)


# Questions and answers over lossy paths, and an upload under cuts of Wi-Fi.

PROGRAM = [sys.executable, str(Path(__file__).with_name("questions.py"))]
PORT = 7500
RATE_PER_S = 200
LOSSES = Losses(10, 1)
UPLOAD_STEADY_S = 2.0  # after an upload's beginning, in which its sender fills every queue


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
        return self.streamed.bps(self.moments[0] - CUT_S, self.moments[0])

    @property
    def pauses_s(self) -> list[float]:
        """The longest at each cut, until Wi-Fi is healed."""
        return [self.streamed.longest_pause_s(moment, moment + CUT_S) for moment in self.moments]


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
        till(time.monotonic() + UPLOAD_STEADY_S)
        lab.stalled()  # from here on it counts
        moments = list(cutting(lab, cuts))
        stalled = lab.stalled()
        streamed = stream.finish()
    lte.set(queue_bytes=before)
    return Uploaded(mode, queue_ms, moments, streamed, stalled)
