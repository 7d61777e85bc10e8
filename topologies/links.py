"""Links with a rate, a queue and loss, each direction by itself and settable while traffic flows.

    sender ── loss ── queue of `queue_bytes`, emptied at `rate_bps` (TBF) ──► receiver

Loss is netem where the kernel has it, and otherwise an nftables rule at the netdev egress hook, which sees
also what a userspace datapath sends by AF_PACKET. Both drop before the queue, each packet by its own throw
of the dice. The rate is TBF's in both cases, so that it behaves alike everywhere.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mininet.link import Intf, Link

from topologies.command import CommandFailed, Done

LOSS_STEPS = 100_000  # 0.001 %
BURST_BYTES = 10_000
OFFLOADS = ("tso", "gso", "gro", "tx", "rx")
KIND_UNKNOWN = "Specified qdisc kind is unknown"


class Runner(Protocol):
    """Runs a program where the interface is."""

    def __call__(self, *argv: str, given: str | None = None, check: bool = True) -> Done: ...


@dataclass(frozen=True, slots=True)
class Shape:
    """What one direction of a link does to packets."""

    rate_bps: int | None = None  # None: as fast as it goes
    loss_percent: float = 0.0
    queue_bytes: int = 150_000

    def __post_init__(self) -> None:
        if self.rate_bps is not None and self.rate_bps <= 0:
            raise ValueError(f"rate_bps is {self.rate_bps}; expected a positive number of bits a second, or None")
        if not 0 <= self.loss_percent <= 100:
            raise ValueError(f"loss_percent is {self.loss_percent}; expected 0 to 100")
        if self.queue_bytes < 2 * BURST_BYTES:
            raise ValueError(f"queue_bytes is {self.queue_bytes}; expected at least {2 * BURST_BYTES}")


UNSHAPED = Shape()


class Loss(Protocol):
    """A way of losing packets; `parent` is where the queue hangs."""

    parent: tuple[str, ...]

    def set(self, percent: float) -> None: ...


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


class NftLoss:
    """One table a device, replaced in one transaction: there is no packet that sees neither rule."""

    parent: tuple[str, ...] = ("root", "handle", "10:")

    def __init__(self, run: Runner, device: str) -> None:
        self._run, self._device = run, device

    def set(self, percent: float) -> None:
        table = f"netdev loss_{self._device}".replace("-", "_")
        steps = round(percent * LOSS_STEPS / 100)
        hook = f'type filter hook egress device "{self._device}" priority 0; policy accept;'
        lines = [
            f"add table {table}",
            f"add chain {table} egress {{ {hook} }}",
            f"flush chain {table} egress",
        ]
        if steps:
            dice = f"numgen random mod {LOSS_STEPS} < {steps}" if steps < LOSS_STEPS else ""
            lines.append(f"add rule {table} egress {dice} counter drop")
        self._run("nft", "-f", "-", given="\n".join(lines) + "\n")


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

    def _apply(self, wanted: Shape) -> None:
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


class ShapedLink(Link):  # type: ignore[misc]  # Mininet is untyped
    """A veth pair; `forward` shapes what leaves node1, `backward` what leaves node2.

    `label` names the link for people.
    """

    def __init__(
        self,
        node1: Any,
        node2: Any,
        forward: Shape = UNSHAPED,
        backward: Shape = UNSHAPED,
        label: str = "",
        **options: Any,
    ) -> None:
        super().__init__(node1, node2, **options)
        self.label = label
        for end, interface in enumerate((self.intf1, self.intf2)):
            _offloads_off(interface)
            _in_order(interface, end % (os.cpu_count() or 1))
        self.forward = Shaper(node1.run, self.intf1.name, forward)
        self.backward = Shaper(node2.run, self.intf2.name, backward)


def _offloads_off(interface: Intf) -> None:
    """A userspace datapath would read half-made checksums, and loss would take whole bundles of segments at once."""
    switches = [word for offload in OFFLOADS for word in (offload, "off")]
    interface.node.run("ethtool", "-K", interface.name, *switches)


def _in_order(interface: Intf, cpu: int) -> None:
    """Let one processor receive all that comes in here.

    Otherwise a veth's packets wait on the processor of whoever sent them, and overtake one another whenever
    the sender (a thread of Open vSwitch) moves: measured, 1 % of a download's segments.
    """
    mounted = "/mnt"  # of the program alone: sysfs shows the namespace that it was mounted in
    queue = f"{mounted}/class/net/{interface.name}/queues/rx-0/rps_cpus"
    words = f"mount -t sysfs sysfs {mounted} && echo {1 << cpu:x} > {queue}"
    interface.node.run("unshare", "--mount", "sh", "-c", words)
