"""The downloads themselves, in the paper's laboratory with the controller on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from experiments.transfer.plan import MODES, Setting, Task
from experiments.transfer.rows import Row
from lab.processes.controller import OPENFLOW, TREE, controlled, pin_mode
from lab.stage import ovs
from lab.stage.stage import raised
from lab.stage.watch import watched
from lab.traffic.web import download, web_server
from topologies.paper import SERVER, PaperTopo

FILE = TREE / "topologies" / "paper.yaml"
LOGS = TREE / "results" / "transfer"  # of what died; others go with the laboratory
SLOWEST_BPS = 500_000  # far below anything seen: slower is broken, not slow


def carry_out(tasks: Iterable[Task], size_bytes: int) -> Iterator[Row]:
    """A row for each task, in their order; one laboratory serves neighbours of one setting."""
    for setting, those in groupby(tasks, lambda task: task.setting):
        yield from _in_one_laboratory(setting, those, size_bytes)


def _in_one_laboratory(setting: Setting, tasks: Iterable[Task], size_bytes: int) -> Iterator[Row]:
    topology = PaperTopo(lte_backup=setting.lte_backup, congestion_control=setting.congestion_control)
    with (
        controlled(FILE) as controller,
        raised(topology, controller=OPENFLOW) as net,
        watched((controller.needed(), *ovs.needed()), LOGS),
    ):
        controller.await_steady()
        client, server, wifi = net.machine("client"), net.machine("server"), net.uplink("wifi")
        with web_server(server, SERVER) as web:
            file = web.offer("transfer.bin", size_bytes)
            for task in tasks:
                pin_mode(controller.client, MODES[task.how])
                wifi.forward.set(loss_percent=task.up_percent)
                wifi.backward.set(loss_percent=task.down_percent)
                # Or a download would begin with what TCP remembers of the one before: its ssthresh, its reordering.
                server.run("ip", "tcp_metrics", "flush")
                got = download(client, file.url, timeout_s=size_bytes * 8 / SLOWEST_BPS)
                yield Row(task, got.seconds, got.size_bytes, got.sha256 == file.sha256, got.mptcp)
