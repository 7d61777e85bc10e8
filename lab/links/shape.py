# SPDX-License-Identifier: Apache-2.0
"""The shape of a link direction."""

from __future__ import annotations

from dataclasses import dataclass

BURST_BYTES = 10_000  # TBF's burst, which a queue must exceed
LONGEST_MS = 10_000


@dataclass(frozen=True, slots=True)
class Bursts:
    """Loss in bursts: a Gilbert-Elliott channel.

    `p` and `r` are the chances per packet to turn bad and good: a bad state lasts 1/r packets on average, and p/(p+r)
    of all packets meet it.
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
    """Loss, then a queue with a rate, then delay. `bursts` and `loss_percent` are independent.

    A packet takes `delay_ms` and up to `jitter_ms` more, uniform, without reordering.

    Two `shared` directions take turns, as on one radio channel. Each further sender with packets waiting costs the
    share `contention` of the rate, down to a tenth of it.

    `others` is the share of cross traffic, for which packets wait: random, in full Ethernet frames, not delivered.
    """

    rate_bps: int | None = None  # None: no limit
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
                raise ValueError(
                    f"{name} is {getattr(self, name)}; expected a share of the rate, at least 0 and less than 1"
                )
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
        return any((self.delay_ms, self.jitter_ms, self.bursts, self.shared, self.contention, self.others))


UNSHAPED = Shape()
