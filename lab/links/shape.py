# SPDX-License-Identifier: Apache-2.0
"""The shape of one direction of a link, as a value: rate, queue, delay and loss."""

from __future__ import annotations

from dataclasses import dataclass

BURST_BYTES = 10_000  # of TBF, which a queue must exceed
LONGEST_MS = 10_000


@dataclass(frozen=True, slots=True)
class Bursts:
    """Loss in bursts: the channel of Gilbert and Elliott, which is good or bad, packet by packet.

    `p` and `r` are the chances that a packet finds it gone from good to bad, and from bad to good: it stays bad for
    1/r packets in the mean, and is bad for p/(p+r) of them all.
    """

    p: float
    r: float
    bad_loss_percent: float = 100.0
    good_loss_percent: float = 0.0

    def __post_init__(self) -> None:
        for name in ("p", "r"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected more than 0 and at most 1")
        for name in ("bad_loss_percent", "good_loss_percent"):
            if not 0 <= getattr(self, name) <= 100:
                raise ValueError(f"{name} is {getattr(self, name)}; expected 0 to 100")

    @property
    def mean_loss_percent(self) -> float:
        return (self.p * self.bad_loss_percent + self.r * self.good_loss_percent) / (self.p + self.r)


@dataclass(frozen=True, slots=True)
class Shape:
    """Loss, then a queue emptied at the rate, then delay. Loss by `bursts` comes beside that by `loss_percent`.

    Each packet takes `delay_ms` and up to `jitter_ms` more, uniform; none overtakes another.

    Directions that are both `shared` send in turns, as on one radio channel: while the one sends, the other waits. For
    each sender beyond the first that has something waiting for the channel, the part `contention` of the rate is lost,
    down to a tenth of it.

    `others` is the part of the rate that packets of others take, as long as Ethernet has them and at random: they leave
    the link as they came, and ours wait for them.
    """

    rate_bps: int | None = None  # None: as fast as it goes
    loss_percent: float = 0.0
    queue_bytes: int = 150_000
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    bursts: Bursts | None = None
    shared: bool = False
    contention: float = 0.0
    others: float = 0.0

    def __post_init__(self) -> None:
        for name in ("contention", "others"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected a part of the rate, from 0 to less than 1")
        if self.rate_bps is not None and self.rate_bps <= 0:
            raise ValueError(f"rate_bps is {self.rate_bps}; expected a positive number of bits a second, or None")
        if not 0 <= self.loss_percent <= 100:
            raise ValueError(f"loss_percent is {self.loss_percent}; expected 0 to 100")
        if self.queue_bytes < 2 * BURST_BYTES:
            raise ValueError(f"queue_bytes is {self.queue_bytes}; expected at least {2 * BURST_BYTES}")
        for name in ("delay_ms", "jitter_ms"):
            if not 0 <= getattr(self, name) <= LONGEST_MS:
                raise ValueError(f"{name} is {getattr(self, name)}; expected 0 to {LONGEST_MS}")

    @property
    def wants_emulator(self) -> bool:
        """Whether this is more than the kernel's queues do, the same on every kernel."""
        return any((self.delay_ms, self.jitter_ms, self.bursts, self.shared, self.contention, self.others))


UNSHAPED = Shape()
