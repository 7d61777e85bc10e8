# SPDX-License-Identifier: Apache-2.0
"""Run a link through build/link-emulator, which is the same on every kernel.

    node1's interface ══ near ─┐                                      ┌─ far ══ node2's interface
          (veth)               └─ link-emulator, in a namespace alone ┘             (veth)

emulator/ holds the program. It ends with this process, as do its namespace and both veths.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.links.shape import UNSHAPED, Shape
from lab.stage import command, isolate
from lab.stage.command import CommandFailed, Done

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "link-emulator"
NEAR, FAR = "near", "far"
ANSWER_BYTES = 4096
PATIENCE_S = 60
# The machine delayed a packet this late. Experiments over such links promise no pause shorter than ten times this.
STALL_MS = 15


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of one direction since the link came up."""

    in_packets: int
    in_bytes: int
    out_packets: int
    out_bytes: int
    lost_packets: int  # by loss_percent and bursts
    dropped_packets: int  # the queue was full
    missed_packets: int  # the emulator read too late
    oversized_packets: int  # bundles of segments: an offload is on
    unsent_packets: int  # refused by the outgoing interface


@dataclass(frozen=True, slots=True)
class Lateness:
    """Lateness of both directions since the previous call."""

    seconds: float
    packets: int
    p50_us: int
    p99_us: int
    max_us: int
    stalls: int  # packets more than STALL_MS late

    @property
    def stalled(self) -> bool:
        """Return whether the machine delayed the link, so that the measurement does not count."""
        return self.stalls > 0

    def __str__(self) -> str:
        late = f"{self.stalls} of {self.packets} packets left more than {STALL_MS} ms late"
        return f"{late}, the latest by {self.max_us / 1000:.1f} ms"


class Emulator:
    """The process of one link. It ends with its starting thread: start it from the main thread."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._place = tempfile.TemporaryDirectory(prefix="link-", dir=isolate.RUN_DIRECTORY)
        path = f"{self._place.name}/control"
        self._process = self._started(path)
        self.pid = self._process.pid
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(PATIENCE_S)
        self._control.connect(path)

    def _started(self, path: str) -> subprocess.Popen[str]:
        words = [str(PROGRAM), path, str(os.getpid()), str(STALL_MS * 1000)]
        try:
            # its own session: cleanup may need the link after Ctrl-C
            process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
        except FileNotFoundError as error:
            raise CommandFailed(f"{PROGRAM} is missing; `make setup` compiles it") from error
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise CommandFailed(f"{self.label}: {PROGRAM.name} ended with {process.wait()}; its error is above")
        return process

    def run(self, *argv: str, given: str | None = None, check: bool = True) -> Done:
        prefix = ("nsenter", f"--net=/proc/{self.pid}/ns/net")
        return command.run(*argv, where=self.label, prefix=prefix, given=given, check=check)

    def tell(self, order: str) -> dict[str, Any]:
        """Send a command of lab/links/emulator/control.h."""
        try:
            self._control.send(order.encode())
            output = self._control.recv(ANSWER_BYTES)
        except (BrokenPipeError, ConnectionError, TimeoutError) as error:
            raise CommandFailed(f"{self.label}: {PROGRAM.name} did not answer `{order}`: {error}") from error
        if not output:
            code = self._process.wait()
            raise CommandFailed(f"{self.label}: {PROGRAM.name} ended with {code} at `{order}`; its error is above")
        answer: dict[str, Any] = json.loads(output)
        if "error" in answer:
            raise CommandFailed(f"{self.label}: {PROGRAM.name} refused `{order}`: {answer['error']}")
        return answer

    def open(self) -> None:
        """Start to carry packets, once both ends are in its namespace."""
        self.tell("open")

    def counters(self) -> tuple[Counters, Counters]:
        counters = self.tell("counters")
        return Counters(**counters["forward"]), Counters(**counters["backward"])

    def lateness(self) -> Lateness:
        return Lateness(**self.tell("lateness"))

    def stop(self) -> None:
        self._control.close()
        self._process.kill()
        self._process.communicate()
        self._place.cleanup()


class EmulatedWay:
    """One direction of an emulated link."""

    def __init__(self, emulator: Emulator, direction: str, shape: Shape) -> None:
        self._emulator, self._direction = emulator, direction
        self.shape = UNSHAPED
        self._apply(shape)

    def set(self, **changes: Any) -> None:
        """Change some fields of the Shape; packets in flight are unaffected."""
        self._apply(replace(self.shape, **changes))

    def _apply(self, wanted: Shape) -> None:
        bursts = wanted.bursts
        fields = {
            "rate_bps": wanted.rate_bps or 0,
            "queue_bytes": wanted.queue_bytes,
            "delay_us": round(wanted.delay_ms * 1000),
            "jitter_us": round(wanted.jitter_ms * 1000),
            "loss": wanted.loss_percent / 100,
            "p": bursts.p if bursts else 0,
            "r": bursts.r if bursts else 0,
            "loss_good": bursts.good_loss_percent / 100 if bursts else 0,
            "loss_bad": bursts.bad_loss_percent / 100 if bursts else 0,
            "shared": int(wanted.shared),
            "contention": wanted.contention,
            "others": wanted.others,
        }
        words = " ".join(f"{name}={value}" for name, value in fields.items())
        self._emulator.tell(f"set {self._direction} {words}")
        self.shape = wanted
