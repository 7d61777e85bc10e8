# SPDX-License-Identifier: Apache-2.0
"""Shape one link direction in the kernel: a queue with a rate, and loss before it.

Loss is netem if the kernel has it, else an nftables rule at the netdev egress hook, which also sees a userspace
datapath's AF_PACKET packets. Both drop packets independently. The rate is always TBF's, so it is the same everywhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from lab.links.shape import BURST_BYTES, UNSHAPED, Shape
from lab.stage.command import CommandFailed, Done

LOSS_STEPS = 100_000  # 0.001 %
KIND_UNKNOWN = "Specified qdisc kind is unknown"
EXISTS = "File exists"
LOST = "lost"  # a down interface, which discards packets


class Runner(Protocol):
    """Run a program in the interface's namespace."""

    def __call__(self, *argv: str, given: str | None = None, check: bool = True) -> Done: ...


class Loss(Protocol):
    """Random loss; the rate's queue attaches at `parent`."""

    parent: tuple[str, ...]

    def set(self, percent: float) -> None: ...

    def end(self) -> None: ...


class NetemLoss:
    parent: tuple[str, ...] = ("parent", "1:1", "handle", "10:")

    def __init__(self, run: Runner, device: str) -> None:
        self._run, self._device = run, device

    @staticmethod
    def available(run: Runner, device: str) -> bool:
        done = run("tc", "qdisc", "replace", "dev", device, "root", "handle", "1:", "netem", check=False)
        if done.returncode != 0 and KIND_UNKNOWN not in done.stderr:
            raise CommandFailed(f"tc qdisc replace dev {device} root netem: {done.stderr.strip()}")
        return done.returncode == 0

    def set(self, percent: float) -> None:
        # A change keeps queued packets and the rate's queue.
        self._run(
            "tc", "qdisc", "change", "dev", self._device, "root", "handle", "1:", "netem", "loss", f"{percent:.3f}%"
        )

    def end(self) -> None:
        """Do nothing: netem ends with its device."""


class NftLoss:
    """One nftables table per device, replaced in one transaction: every packet meets a rule.

    Lost packets go to a dead interface, because the kernel would report a drop to the sender, as no real path does.
    Open vSwitch sends up to 32 packets at once, repeats a refused one, and drops the rest at the second refusal:
    measured, 23 % in runs of 20 instead of 10 %.

    The table outlives its device. From Linux 6.16 on it attaches to the next of the same name.
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
    def __init__(self, run: Runner, device: str, shape: Shape = UNSHAPED) -> None:
        self.device = device
        self.shape = UNSHAPED
        self._run = run
        self._loss: Loss | None = None
        self._apply(shape)

    def set(self, **changes: Any) -> None:
        """Change rate_bps, loss_percent or queue_bytes; queued packets stay."""
        self._apply(replace(self.shape, **changes))

    def end(self) -> None:
        """Remove what outlives the interface while it exists."""
        if self._loss is not None:
            self._loss.end()

    def _apply(self, wanted: Shape) -> None:
        if wanted.wants_emulator:
            remedy = "delay, jitter and bursts need an emulated link; start the link with one of them"
            raise ValueError(f"{self.device} is shaped by the kernel; {remedy}")
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
