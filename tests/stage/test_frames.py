# SPDX-License-Identifier: Apache-2.0
"""The paper's router loses whole offloaded frames of the server, if it is asked to."""

from __future__ import annotations

import re

from lab.stage.stage import raised
from lab.traffic.web import download, web_server
from tests.stage import rendered
from topologies.paper import SERVER, PaperTopo


def test_the_router_loses_whole_frames() -> None:
    with raised(PaperTopo(congestion_control="cubic", frames_lost=True)) as net:
        rendered.install("off")
        net.uplink("wifi").backward.set(loss_percent=5)
        with web_server(net.machine("server"), SERVER) as web:
            download(net.machine("client"), web.offer("framed", 5_000_000).url)
        listed = net.machine("router").run("nft", "list", "table", "netdev", "loss_wifi").stdout
    packets, size_bytes = map(int, re.findall(r"counter packets (\d+) bytes (\d+)", listed)[0])
    # No single packet is larger than 1514 bytes, so a mean above it is a frame of several.
    assert size_bytes > 1514 * packets, listed
