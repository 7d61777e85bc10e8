# SPDX-License-Identifier: Apache-2.0
"""The MPTCP subflows of the paper's laboratory have the parameters of the topology."""

from __future__ import annotations

import re
import time

import pytest
import rendered

from lab.stage.nodes import Machine
from lab.stage.stage import raised
from lab.traffic.web import web_server
from topologies.paper import SERVER, PaperTopo

SOON_S = 60


@pytest.mark.parametrize("backup", [True, False])
@pytest.mark.parametrize("congestion_control", ["cubic", "bbr"])
def test_subflows_have_the_chosen_flag_and_congestion_control(backup: bool, congestion_control: str) -> None:
    topo = PaperTopo(lte_backup=backup, congestion_control=congestion_control)
    with raised(topo) as net, web_server(net.machine("server"), SERVER) as web:
        rendered.install("bicast")
        client, server = net.machine("client"), net.machine("server")
        url = web.offer("long", 50_000_000).url
        with client.popen("mptcpize", "run", "curl", "-s", "--limit-rate", "500K", "-o", "/dev/null", url) as curl:
            found = until_two_subflows(server)
            curl.terminate()
    assert {peer: cc for peer, cc, _ in found} == dict.fromkeys(("192.168.110.3", "192.168.210.3"), congestion_control)
    assert {peer: flagged for peer, _, flagged in found} == {"192.168.110.3": False, "192.168.210.3": backup}


def until_two_subflows(server: Machine) -> list[tuple[str, str, bool]]:
    """Return the peer and congestion control of each subflow, and whether it is backup."""
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        told = server.run("ss", "-Htin", "state", "established", "sport", "=", ":80").stdout
        rows = re.findall(r"\s(192\.168\.\d+\.3):\d+\s*\n\s+(\w+) .*tcp-ulp-mptcp flags:(\S+)", told)
        if len(rows) == 2:
            return [(peer, cc, "b" in flags.lower()) for peer, cc, flags in rows]
    raise AssertionError(f"no two subflows within {SOON_S} s: {told}")
