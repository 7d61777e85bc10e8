# SPDX-License-Identifier: Apache-2.0
"""Plan the rounds, the losses and the compared figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lab.links.shape import Bursts

RATES_BPS = {"wifi": 100_000_000, "lte": 50_000_000}
# Each way. The difference bounds the gap when one path takes over from the other.
SHAPED: Mapping[str, float] = MappingProxyType({"wifi_delay_ms": 10.0, "lte_delay_ms": 20.0})
UNSHAPED: Mapping[str, float] = MappingProxyType({"shaped": False})
WIFI_BURSTS = Bursts(1 / 36, 1 / 4)  # 10 % on average, four packets at a time
LTE_LOSS_PERCENT = 1.0
CALL_PPS, CALL_BYTES = 50, 100
STREAM_PPS, STREAM_BYTES = 760, 1316  # 8 Mbit/s of seven MPEG-TS packets each
ASKED_PER_S = 50
# mqvpn and our encrypted tunnels would fragment 1,400 bytes of payload; 1,316 pass whole through all of them.
SIZES = (200, STREAM_BYTES)
PACED_PPS = 2000  # each variant carries more


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    rounds: int
    alone_s: float  # of the call, then of requests beside it, then of the stream
    bulk_s: int  # each way
    cut_s: float  # of a link that is down, and of each NAT rebinding
    healed_s: float  # after a link that was down
    black_s: float
    rate_s: int  # of a flood, and of a paced flow


QUICK = Plan("quick", rounds=1, alone_s=2.25, bulk_s=2, cut_s=1.0, healed_s=1.0, black_s=30.0, rate_s=1)
FULL = Plan("full", rounds=5, alone_s=2.25, bulk_s=2, cut_s=1.0, healed_s=1.0, black_s=30.0, rate_s=1)


@dataclass(frozen=True, slots=True)
class Row:
    key: str
    text: str
    unit: str
    fold: str  # of the rounds: mean, median, max or sum
    more_is_better: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    key: str
    text: str


DOWN = Fault("down", "used link down")
REBOUND = Fault("rebound", "NAT rebinding, twice")
BLACK = Fault("black", "used path black for 30 s")
FAULTS = (DOWN, REBOUND, BLACK)
QUIET = "_quiet"  # ends the key of a figure without the machine's stalls


def _twice(key: str, text: str, fold: str) -> tuple[Row, Row]:
    return Row(key, text, "ms", fold), Row(key + QUIET, f"{text}, no stalls", "ms", fold)


def _of_fault(fault: Fault) -> tuple[Row, ...]:
    return (
        Row(f"{fault.key}_lost", f"{fault.text}: call, lost", "datagrams", "sum"),
        *_twice(f"{fault.key}_gap", f"{fault.text}: call, longest gap", "max"),
        *_twice(f"{fault.key}_answer", f"{fault.text}: longest 1 kB answer", "max"),
    )


ROWS = (
    Row("failed", "parts that failed", "", "sum"),
    Row("call_lost", "lossy: call, lost", "%", "mean"),
    *_twice("call_gap", "lossy: call, longest gap", "max"),
    Row("call_wire", "lossy: call, wire / payload bytes", "", "median"),
    Row("stream_lost", "lossy: 8 Mbit/s, lost", "%", "mean"),
    *_twice("stream_gap", "lossy: 8 Mbit/s, longest gap", "max"),
    Row("stream_wire", "lossy: 8 Mbit/s, wire / payload bytes", "", "median"),
    *_twice("answer_p50", "lossy: 1 kB answer, p50", "median"),
    *_twice("answer_p99", "lossy: 1 kB answer, p99", "median"),
    Row("bulk_up", "lossy: bulk up", "Mbit/s", "median", more_is_better=True),
    Row("bulk_down", "lossy: bulk down", "Mbit/s", "median", more_is_better=True),
    *(row for fault in FAULTS for row in _of_fault(fault)),
    *(Row(f"rate_{size}", f"unshaped: {size} bytes", "packets/s", "median", more_is_better=True) for size in SIZES),
    *(Row(f"cpu_{size}", f"unshaped: {size} bytes, CPU", "s/Gbit", "median") for size in SIZES),
)
