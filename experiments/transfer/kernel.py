# SPDX-License-Identifier: Apache-2.0
"""The corners on the kernel's datapath with netem, at a tenth of the rates, in the emulated machine of `make vm`.

    make corners

Rates are too low for an emulated processor to be the limit. Rows go to results/vm.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path

from experiments.transfer.measure import FILE, Laboratory
from experiments.transfer.plan import CORNERS, MODES, PAPER, Task
from experiments.transfer.rows import Rows
from lab.processes.slow import SlowController
from lab.results import RESULTS
from lab.stage import isolate
from lab.stage.kernel import LossyGateway, on_the_kernel
from lab.stage.stage import raised
from lab.traffic.web import web_server
from topologies.paper import LTE_BPS, LTE_LOSS_PERCENT, SERVER, WIFI_BPS, PaperTopo

SLOWER = 10
BYTES = 5_000_000


@contextmanager
def laboratory() -> Iterator[Laboratory]:
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kernel-", dir=isolate.RUN_DIRECTORY)))
        written, running = place / FILE.name, place / "controller"
        written.write_text(FILE.read_text().replace("datapath: netdev", "datapath: system"))
        running.mkdir()
        controller = SlowController(written, "", directory=running)
        controller.start()
        stack.callback(controller.stop)
        control = PAPER.congestion_control
        topology = on_the_kernel(PaperTopo, controller.file, LossyGateway, congestion_control=control)
        net = stack.enter_context(raised(topology))
        for name, rate_bps, loss_percent in (("wifi", WIFI_BPS, 0.0), ("lte", LTE_BPS, LTE_LOSS_PERCENT)):
            for way in (net.uplink(name).forward, net.uplink(name).backward):
                way.set(rate_bps=rate_bps // SLOWER, loss_percent=loss_percent)
        controller.await_steady()
        web = stack.enter_context(web_server(net.machine("server"), SERVER))
        yield Laboratory(net, controller, web.offer("transfer.bin", BYTES))


def main() -> int:
    isolate.enter()
    rows = Rows(RESULTS / "vm" / "kernel.csv")
    with laboratory() as lab:
        for (up, down), how in product(CORNERS, MODES):
            row = lab.download(Task(PAPER, up, down, how, 1))
            rows.append(row)
            print(f"Wi-Fi loses {up} % up, {down} % down; {how:6} {row.seconds:7.2f} s, good: {row.good}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
