# SPDX-License-Identifier: Apache-2.0
"""Measure outages of a port and of the controller."""

from __future__ import annotations

import time
from collections.abc import Iterator

from experiments.bench.laboratory import Lab, lab
from lab.processes.openflow_spy import BARRIER_REPLY
from lab.results.figures import Figure, Promise, below, exactly, middle, worst
from lab.stage.command import run
from lab.stage.failure import ExperimentFailed
from lab.traffic.download import DownloadResult, flowing
from lab.traffic.web import WebFile, web_server
from topologies.paper import SERVER, PaperTopo

# A port goes down and up

PORT_ROUNDS = 20
PORT_PROMISED_MS = 100.0


def _group_update_ms(lab: Lab, state: str) -> float:
    """Return the time from the link's change to the switch's barrier reply after the new groups."""
    began = time.monotonic()
    run("ip", "link", "set", "gw-lte", state)
    return (lab.spy.wait(BARRIER_REPLY, since=began) - began) * 1000


def ports() -> Iterator[Figure]:
    down_ms, up_ms = [], []
    with lab(PaperTopo(shaped=False)) as stage:
        for _ in range(PORT_ROUNDS):
            down_ms.append(_group_update_ms(stage, "down"))
            up_ms.append(_group_update_ms(stage, "up"))
    yield worst("a port that goes down has left the buckets", down_ms, "ms", below(PORT_PROMISED_MS))
    yield middle("  median", down_ms, "ms")
    yield middle("a port that comes up is back in the buckets, median", up_ms, "ms")


# kill -9 of the controller during a bicast download

DEATH_ROUNDS = 3
BYTES, LONG_BYTES = 50_000_000, 160_000_000  # the longer one outlasts death and restart on a busy machine
PAUSE_PROMISED_MS = 200.0
AT_MOST = Promise(f"<= {PAUSE_PROMISED_MS:g}", lambda value: value <= PAUSE_PROMISED_MS)


def plain_download(lab: Lab, file: WebFile) -> DownloadResult:
    with flowing(lab.net.machine("client"), file) as download:
        return download.received()


def download_through_restart(lab: Lab, file: WebFile) -> DownloadResult:
    with flowing(lab.net.machine("client"), file) as download:
        lab.controller.kill()
        lab.controller.start()
        lab.controller.await_steady()
        if download.ended:
            raise ExperimentFailed("the download ended before the controller was back: stop other load on this machine")
        return download.received()


def death() -> Iterator[Figure]:
    plain_ms, pauses_ms, broken, forgotten, sent = [], [], [], [], []
    topo = PaperTopo(congestion_control="bbr")
    # gateway.yaml has mode off and Wi-Fi: after the restart the saved state decides.
    with lab(topo, ("mode: bicast", 'mode: "off"')) as stage, web_server(stage.net.machine("server"), SERVER) as web:
        client = stage.controller.client
        client.set_mode("client", "bicast")
        client.set_active("client", "lte")
        short, file = web.offer("short", BYTES), web.offer("long", LONG_BYTES)
        for _ in range(DEATH_ROUNDS):
            plain_ms.append(plain_download(stage, short).longest_pause_s * 1000)
            began = stage.spy.messages[-1].at
            got = download_through_restart(stage, file)
            pauses_ms.append(got.longest_pause_s * 1000)
            broken.append(float(got.sha256 != file.sha256))
            sent.append(float(stage.spy.modifications(since=began)))
            kept = client.get("terminals", "client")
            forgotten.append(float((kept["mode"], kept["active_uplink"]) != ("bicast", "lte")))
    yield middle("download undisturbed: longest pause", plain_ms, "ms")
    yield worst("controller killed -9 under a download and started again: longest pause", pauses_ms, "ms", AT_MOST)
    yield worst("  downloads whose bytes are not the file's", broken, "downloads", exactly(0))
    yield worst("  manual choices that do not hold", forgotten, "choices", exactly(0))
    yield worst("  modifications sent on its return", sent, "messages", exactly(0))
