"""The paper's lab with its controller, in a world of its own; says `reached` when the client has reached the server."""

from __future__ import annotations

import signal

from lab.processes.controller import OPENFLOW, TREE, controlled
from lab.stage import isolate
from lab.stage.stage import raised
from topologies.paper import SERVER, PaperTopo

STOP = {signal.SIGTERM}

isolate.enter()
signal.pthread_sigmask(signal.SIG_BLOCK, STOP)
with (
    controlled(TREE / "topologies" / "paper.yaml") as controller,
    raised(PaperTopo(shaped=False), controller=OPENFLOW) as net,
):
    controller.await_steady()
    net.machine("client").run("ping", "-c", "1", "-w", "60", "-I", "192.168.110.3", SERVER)
    print("reached", flush=True)
    signal.sigwait(STOP)
