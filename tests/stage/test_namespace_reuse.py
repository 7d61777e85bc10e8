# SPDX-License-Identifier: Apache-2.0
"""A stage works in a namespace that earlier stages have used."""

from __future__ import annotations

from lab.stage.stage import raised
from topologies.beyond import WEB6, BeyondTopo


def test_ipv6_works_after_an_earlier_stage() -> None:
    for _again in range(2):
        with raised(BeyondTopo(shaped=False)) as net:
            assert "bytes from" in net.machine("world").run("ping", "-6", "-c1", "-W5", WEB6).stdout
