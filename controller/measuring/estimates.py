"""What is to be estimated of a probe, and what was: by estimating.py, in a thread that is not the core's."""

from __future__ import annotations

from dataclasses import dataclass

from controller.measures import Probed
from controller.policy.rates import Alpha, Rate, Unknown


@dataclass(frozen=True, slots=True)
class Estimate:
    site: str
    uplink: str
    down: bool
    probed: Probed
    alpha: Alpha | None  # None: nobody has calibrated these hosts
    link_bps: float | None  # the link's rate, where a person says it: calibrate them
    at: float  # when the probe was over, by the core's clock


@dataclass(frozen=True, slots=True)
class Estimated:
    of: Estimate
    one_packet: Rate | Unknown
    trains: Rate | Unknown
    alpha: Alpha | Unknown | None  # None: nobody asked for it
    sent: int = 0  # packets alone
    lost: int = 0
    reordered: int = 0
    mtu_bytes: int | None = None  # of what nothing longer came through; None: the longest did
