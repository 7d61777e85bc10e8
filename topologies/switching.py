# SPDX-License-Identifier: Apache-2.0
"""The paper's laboratory with two paths of equal rate and different delay, to show switching.

    wifi  20 Mbit/s, 20 ms there and back
    lte   20 Mbit/s, 50 ms there and back

Machines, addresses and gateway.yaml are those of topologies/paper.py.

    mn --custom topologies/switching.py --topo switching
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if __name__ == "builtins":  # `mn --custom` gives no module name or path
    sys.path.insert(0, str(Path(sys._getframe().f_code.co_filename).resolve().parent.parent))

from lab.links.shape import Shape
from topologies.paper import LabTopo

RATE_BPS = 20_000_000
WIFI_RTT_MS, LTE_RTT_MS = 20.0, 50.0


class SwitchingTopo(LabTopo):
    def build(
        self,
        rate_bps: int = RATE_BPS,
        wifi_rtt_ms: float = WIFI_RTT_MS,
        lte_rtt_ms: float = LTE_RTT_MS,
        lte_backup: bool = True,
        congestion_control: str | None = None,  # of the server; None: the kernel's default
        **_options: Any,
    ) -> None:
        wifi = Shape(rate_bps, delay_ms=wifi_rtt_ms / 2)
        lte = Shape(rate_bps, delay_ms=lte_rtt_ms / 2)
        self.raise_lab((wifi, wifi), (lte, lte), bool(lte_backup), congestion_control)


topos = {"switching": SwitchingTopo}

if __name__ == "builtins":
    from lab.stage import stage

    stage.prepare_for_mn()
