# SPDX-License-Identifier: Apache-2.0
"""Transfer direct and relayed, and compare with the prediction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from controller.policy.paths.leg_throughput import Leg, throughput
from experiments.relay.cost.proxies import DIRECT, PAIR, ask, running_routes
from experiments.relay.cost.topology import FAR, NEAR
from experiments.relay.halfway.plan import WAYS, Plan
from lab.stage.stage import Stage

RECEIVE = "net.ipv4.tcp_rmem=4096 131072 131072"  # a half or a little more of it is the window
WINDOW_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Run:
    rtt_ms: float
    way: str
    direct_bps: float
    pair_bps: float
    stalled: str

    @property
    def gain(self) -> float:
        return 100 * (self.pair_bps / self.direct_bps - 1)

    @property
    def off(self) -> float:
        """Return the rate's deviation, relative to direct, in percent."""
        half, whole = (throughput(Leg(self.rtt_ms / part), WINDOW_BYTES).bps for part in (2, 1))
        return 100 * (half / whole * self.direct_bps / self.pair_bps - 1)

    def __str__(self) -> str:
        rates = f"direct {self.direct_bps / 1e6:.2f}, by the pair {self.pair_bps / 1e6:.2f} Mbit/s"
        return f"{self.rtt_ms:.0f} ms, {self.way}: {rates} ({self.gain:+.0f} %); prediction off by {self.off:+.0f} %"


def carry_out(plan: Plan, _logs: Path) -> Iterator[Run]:
    for rtt_ms in plan.rtts_ms:
        with running_routes(rtt_ms / 4, (DIRECT, PAIR), RECEIVE) as (net, ways):
            for way in WAYS * plan.rounds:
                _stalled(net)  # forget earlier stalls
                direct, pair = (ask(net, "bulk", each, way, plan.seconds)[0] for each in ways)
                yield Run(rtt_ms, way, _bps(direct), _bps(pair), _stalled(net))


def _bps(result: dict[str, float]) -> float:
    return 8 * result["bytes"] / result["seconds"]


def _stalled(net: Stage) -> str:
    found = ((name, net.uplink(name).lateness()) for name in (NEAR, FAR))
    return "; ".join(f"on {name} {one}" for name, one in found if one.stalls > one.packets / 1000)
