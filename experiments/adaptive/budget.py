"""A download whose acknowledgements ride LTE, too, in mode bicast, until the day's budget of LTE is used up.

In the paper's laboratory with its plain router: only what goes up is copied. So what comes out of LTE's far end are
copies, whoever sent them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from experiments.adaptive import changes
from experiments.adaptive.looking import Look, held
from experiments.adaptive.plan import ALWAYS
from experiments.adaptive.seen import Budgeted
from experiments.laboratories.two_paths import BACKUP, FILE, Laboratory
from lab.processes.agents import SETTINGS, TERMINAL, agent
from lab.processes.controller import OPENFLOW, controlled, pin_mode
from lab.stage import isolate, ovs
from lab.stage.stage import raised
from lab.stage.watch import watched
from lab.traffic.streaming import streaming
from topologies.paper import SERVER
from topologies.switching import SwitchingTopo

RATE_BPS = 50_000_000  # some 2,000 acknowledgements a second


def budgeted(budget_bytes: int, seconds: float, logs: Path) -> Budgeted:
    with _laboratory(budget_bytes, logs) as lab, agent(lab.controller, lab.client, TERMINAL, "terminal"):
        lab.controller.client.set_active(TERMINAL, "wifi")
        pin_mode(lab.controller.client, ALWAYS)
        look = Look(lambda: lab.net.uplink(BACKUP).counters()[0].out_bytes)
        with streaming(lab.server, lab.client, SERVER) as stream:
            stream.await_flowing()
            held(lab.net)  # from here on it counts
            began = look.now()
            look.until(began + seconds)
            ended = time.monotonic()
            stalled = held(lab.net)
            streamed = stream.finish()
        look.now()
        told = changes.read(lab.controller.client, TERMINAL)
    said = told[-1].because if told else "it was not used up"
    return Budgeted(budget_bytes, began, look.carried, streamed, ended, said, stalled)


@contextmanager
def _laboratory(budget_bytes: int, logs: Path) -> Iterator[Laboratory]:
    written = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    written["sites"]["home"]["uplinks"][BACKUP]["budget_bytes_per_day"] = budget_bytes
    with tempfile.TemporaryDirectory(prefix="budget-", dir=isolate.RUN_DIRECTORY) as place:
        file = Path(place) / FILE.name
        file.write_text(yaml.safe_dump(written), encoding="utf-8")
        with (
            controlled(file, SETTINGS) as controller,
            raised(SwitchingTopo(rate_bps=RATE_BPS), controller=OPENFLOW) as net,
            watched(ovs.needed(), logs),
        ):
            controller.await_steady()
            yield Laboratory(net, controller)
