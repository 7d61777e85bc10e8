# SPDX-License-Identifier: Apache-2.0
"""The topology for switching has the paths that it promises."""

from __future__ import annotations

import re

import handwritten
import pytest

from lab.stage.nodes import Machine
from lab.stage.stage import raised
from lab.traffic.web import download, web_server
from topologies.paper import SERVER
from topologies.switching import SwitchingTopo

PATHS = {"wifi": ("192.168.110.3", 20.0), "lte": ("192.168.210.3", 50.0)}


def least_rtt_ms(client: Machine, source: str) -> float:
    told = client.run("ping", "-c", "10", "-i", "0.05", "-W", "2", "-q", "-I", source, SERVER).stdout
    found = re.search(r"rtt min\S+ = ([\d.]+)/", told)
    assert found, told
    return float(found[1])


@pytest.mark.timed
@pytest.mark.parametrize("backup", [True, False])
def test_paths_have_their_delays_and_a_backup_stays_idle(backup: bool) -> None:
    topo = SwitchingTopo(lte_backup=backup, congestion_control="cubic")
    with raised(topo) as net, web_server(net.machine("server"), SERVER) as web:
        handwritten.install(bicast=False)
        client = net.machine("client")
        for source, rtt_ms in PATHS.values():
            assert rtt_ms <= least_rtt_ms(client, source) < rtt_ms + 8
        offered = web.offer("whole", 6_000_000)
        for name in PATHS:
            net.uplink(name).lateness()
        before = {name: net.uplink(name).counters()[1].out_bytes for name in PATHS}
        got = download(client, offered.url)
        assert (got.size_bytes, got.sha256, got.mptcp) == (offered.size_bytes, offered.sha256, True)
        carried = {name: net.uplink(name).counters()[1].out_bytes - before[name] for name in PATHS}
        if backup:
            assert got.size_bytes * 8 / got.seconds < 20_000_000
            assert carried["lte"] < 100_000 < carried["wifi"]
        else:
            assert min(carried.values()) > 1_000_000
