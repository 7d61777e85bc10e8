# SPDX-License-Identifier: Apache-2.0
"""A stage is raised where others stood before: what they left in the namespace that they share does not harm it."""

from __future__ import annotations

from lab.stage.stage import raised
from topologies.beyond import WEB6, BeyondTopo


def test_a_machine_in_the_bridges_namespace_has_its_ipv6_again() -> None:
    for _again in range(2):
        with raised(BeyondTopo(shaped=False)) as net:
            assert "bytes from" in net.machine("world").run("ping", "-6", "-c1", "-W5", WEB6).stdout
