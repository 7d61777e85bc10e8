"""A rate as it was measured, or why it is not known: what others go on with, without the arithmetic that found it."""

from __future__ import annotations

from dataclasses import dataclass

UNSURE_S_PER_BYTE = 0.3e-9  # what alpha moves by from run to run


@dataclass(frozen=True, slots=True)
class Alpha:
    """What two hosts take for each byte beside the link."""

    s_per_byte: float = 0.0
    error: float = UNSURE_S_PER_BYTE


@dataclass(frozen=True, slots=True)
class Rate:
    """With an interval that has it in 95 of 100."""

    bps: float
    least_bps: float
    most_bps: float


@dataclass(frozen=True, slots=True)
class Unknown:
    because: str


CALIBRATED = Alpha()
UNCALIBRATED = Alpha(error=1.1e-9)  # never less than none, and was seen from 0.1 to 2 ns on processors of our time


def said(bps: float) -> str:
    mbps = bps / 1e6
    return f"{mbps:.0f} Mbit/s" if mbps >= 1000 else f"{mbps:.4g} Mbit/s"
