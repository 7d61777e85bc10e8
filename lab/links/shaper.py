# SPDX-License-Identifier: Apache-2.0
"""One direction of a link that the kernel shapes: a queue with a rate, and loss before it.

Loss is netem where the kernel has it, and otherwise an nftables rule at the netdev egress hook, which also sees the
packets that a userspace datapath sends by AF_PACKET. Both drop before the queue, each packet independently. The rate is
TBF's in both cases, so that it behaves alike everywhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from lab.links.shape import BURST_BYTES, UNSHAPED, Shape
from lab.stage.command import CommandFailed, Done

LOSS_STEPS = 100_000  # 0.001 %
KIND_UNKNOWN = "Specified qdisc kind is unknown"
EXISTS = "File exists"
LOST = "lost"  # an interface that is down: what it is given is nowhere


class Runner(Protocol):
    """Runs a program where the interface is."""

    def __call__(self, *argv: str, given: str | None = None, check: bool = True) -> Done: ...


class Loss(Protocol):
    """A way of losing packets; `parent` is where the queue hangs."""

    parent: tuple[str, ...]

    def set(self, percent: float) -> None: ...

    def end(self) -> None: ...


class NetemLoss:
    parent: tuple[str, ...] = ("parent", "1:1", "handle", "10:")

    def __init__(self, run: Runner, device: str) -> None:
        self._run, self._device = run, device

    @staticmethod
    def available(run: Runner, device: str) -> bool:
        """Found out by trying: netem becomes the root queue, or the kernel says that it has none."""
        done = run("tc", "qdisc", "replace", "dev", device, "root", "handle", "1:", "netem", check=False)
        if done.returncode != 0 and KIND_UNKNOWN not in done.stderr:
            raise CommandFailed(f"tc qdisc replace dev {device} root netem: {done.stderr.strip()}")
        return done.returncode == 0

    def set(self, percent: float) -> None:
        # A change keeps what is queued, and the rate's own queue below.
        self._run(
            "tc", "qdisc", "change", "dev", self._device, "root", "handle", "1:", "netem", "loss", f"{percent:.3f}%"
        )

    def end(self) -> None:
        """It goes with its device."""


class NftLoss:
    """One table a device, replaced in one transaction: there is no packet that sees neither rule.

    What is lost is sent to nowhere, and not dropped there: of a drop the kernel tells the sender, and no path does.
    Open vSwitch sends up to 32 packets at once, tries again what was refused, and at the second refusal drops the rest:
    measured, 23 % in runs of 20, where 10 % were to be lost.

    The table outlives its device, and from Linux 6.16 on it takes the next one of the same name for its own.
    """

    parent: tuple[str, ...] = ("root", "handle", "10:")

    def __init__(self, run: Runner, device: str) -> None:
        self._run, self._device = run, device
        made = run("ip", "link", "add", LOST, "type", "ifb", check=False)
        if made.returncode != 0 and EXISTS not in made.stderr:
            raise CommandFailed(f"ip link add {LOST} type ifb: {made.stderr.strip()}")
        self._table = f"netdev loss_{device}".replace("-", "_")

    def set(self, percent: float) -> None:
        table = self._table
        steps = round(percent * LOSS_STEPS / 100)
        hook = f'type filter hook egress device "{self._device}" priority 0; policy accept;'
        lines = [
            f"add table {table}",
            f"add chain {table} egress {{ {hook} }}",
            f"flush chain {table} egress",
        ]
        if steps:
            dice = f"numgen random mod {LOSS_STEPS} < {steps}" if steps < LOSS_STEPS else ""
            lines.append(f"add rule {table} egress {dice} counter fwd to {LOST}")
        self._run("nft", "-f", "-", given="\n".join(lines) + "\n")

    def end(self) -> None:
        self._run("nft", "delete", "table", *self._table.split())


class Shaper:
    """What leaves by one interface."""

    def __init__(self, run: Runner, device: str, shape: Shape = UNSHAPED) -> None:
        self.device = device
        self.shape = UNSHAPED
        self._run = run
        self._loss: Loss | None = None
        self._apply(shape)

    def set(self, **changes: Any) -> None:
        """Change some of rate_bps, loss_percent, queue_bytes; what is not named stays, and so does what is queued."""
        self._apply(replace(self.shape, **changes))

    def end(self) -> None:
        """While the interface is still there."""
        if self._loss is not None:
            self._loss.end()

    def _apply(self, wanted: Shape) -> None:
        if wanted.wants_emulator:
            told = "delay, jitter and bursts need an emulated link, which is one raised with any of them"
            raise ValueError(f"{self.device} is shaped by the kernel; {told}")
        if wanted.loss_percent != self.shape.loss_percent or (wanted != self.shape and self._loss is None):
            self._lossy().set(wanted.loss_percent)
        if (wanted.rate_bps, wanted.queue_bytes) != (self.shape.rate_bps, self.shape.queue_bytes):
            self._limit(self._lossy().parent, wanted)
        self.shape = wanted

    def _lossy(self) -> Loss:
        if self._loss is None:
            netem = NetemLoss.available(self._run, self.device)
            self._loss = NetemLoss(self._run, self.device) if netem else NftLoss(self._run, self.device)
        return self._loss

    def _limit(self, parent: tuple[str, ...], wanted: Shape) -> None:
        if wanted.rate_bps is not None:
            rate = ("rate", f"{wanted.rate_bps}bit", "burst", str(BURST_BYTES), "limit", str(wanted.queue_bytes))
            self._run("tc", "qdisc", "replace", "dev", self.device, *parent, "tbf", *rate)
        elif self.shape.rate_bps is not None:
            self._run("tc", "qdisc", "del", "dev", self.device, *parent)
