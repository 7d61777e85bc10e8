"""The controller is killed with -9 under a bicast download, after a manual mode and switch, and started again."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.bench.lab import Lab, lab
from lab.results.figures import Figure, Promise, exactly, middle, worst
from lab.stage.failure import ExperimentFailed
from lab.traffic.download import Received, flowing
from lab.traffic.web import WebFile, web_server
from topologies.paper import SERVER, PaperTopo

ROUNDS = 3
BYTES, LONG_BYTES = 50_000_000, 160_000_000  # the longer outlasts a death and a return on a busy machine
PROMISED_MS = 200.0
AT_MOST = Promise(f"<= {PROMISED_MS:g}", lambda value: value <= PROMISED_MS)


def undisturbed(lab: Lab, file: WebFile) -> Received:
    with flowing(lab.net.machine("client"), file) as download:
        return download.received()


def bereaved(lab: Lab, file: WebFile) -> Received:
    with flowing(lab.net.machine("client"), file) as download:
        lab.controller.kill()
        lab.controller.start()
        lab.controller.await_steady()
        if download.ended:
            raise ExperimentFailed("the download ended before the controller was back: end what else runs here")
        return download.received()


def measure() -> Iterator[Figure]:
    plain_ms, pauses_ms, broken, forgotten, sent = [], [], [], [], []
    topo = PaperTopo(congestion_control="bbr")
    # In the file nothing is bicast and Wi-Fi is active: what is found after the death was kept.
    with lab(topo, ("mode: bicast", 'mode: "off"')) as stage, web_server(stage.net.machine("server"), SERVER) as web:
        client = stage.controller.client
        client.set_mode("client", "bicast")
        client.set_active("client", "lte")
        short, file = web.offer("short", BYTES), web.offer("long", LONG_BYTES)
        for _ in range(ROUNDS):
            plain_ms.append(undisturbed(stage, short).longest_pause_s * 1000)
            began = stage.spy.noted[-1].at
            got = bereaved(stage, file)
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
