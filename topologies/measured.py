# SPDX-License-Identifier: Apache-2.0
"""Two hosts and a link to measure.

    near ── link 10.0.0.1 ────────── 10.0.0.2 link ── far

`rate_bps` and `delay_ms` are each way; `others` is cross traffic's share of the rate. With `bucket` the kernel's token
bucket replaces the bit-by-bit link, without delay: it passes single packets at once.

    mn --custom topologies/measured.py --topo measured,rate_bps=10000000
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if __name__ == "builtins":  # `mn --custom` gives no module name or path
    sys.path.insert(0, str(Path(sys._getframe().f_code.co_filename).resolve().parent.parent))

from mininet.topo import Topo

from lab.links.links import ShapedLink
from lab.links.shape import Shape
from lab.stage.nodes import Machine
from lab.stage.stage import refuse_unknown

NEAR, FAR = "10.0.0.1", "10.0.0.2"
DEVICE = "link"
QUEUE_BYTES = 400_000
PARAMETERS = ("rate_bps", "delay_ms", "others", "bucket")


class MeasuredTopo(Topo):  # type: ignore[misc]  # Mininet is untyped
    def build(
        self,
        rate_bps: int = 100_000_000,
        delay_ms: float = 2.0,
        others: float = 0.0,
        bucket: bool = False,
        **unknown: Any,
    ) -> None:
        refuse_unknown(unknown, PARAMETERS)
        if bucket and others:
            raise ValueError(f"others={others} with a token bucket: expected only one of the two")
        for name, address in (("near", NEAR), ("far", FAR)):
            self.addHost(name, cls=Machine, addresses={DEVICE: [f"{address}/24"]})
        shape = Shape(rate_bps, queue_bytes=QUEUE_BYTES)
        if not bucket:
            shape = Shape(rate_bps, queue_bytes=QUEUE_BYTES, delay_ms=delay_ms, others=others)
        names = {"intfName1": DEVICE, "intfName2": DEVICE}
        self.addLink("near", "far", cls=ShapedLink, label=DEVICE, forward=shape, backward=shape, **names)


topos = {"measured": MeasuredTopo}

if __name__ == "builtins":
    from lab.stage import stage

    stage.prepare_for_mn()
