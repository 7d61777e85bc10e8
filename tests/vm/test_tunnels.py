# SPDX-License-Identifier: Apache-2.0
"""Tunnels are system ports of the kernel's datapath like any other, and the kernel encrypts them."""

import re

import pytest

from tests.system.evidence import until
from tests.system.pinging import PINGS, pinged, pinging
from tests.system.test_tunnels import *  # noqa: F403
from tests.system.test_tunnels import gone
from tests.system.tunnelled import CLIENT, SITES, TunnelLab
from topologies.natted import OUTER


@pytest.fixture(scope="module")
def tunnelled(natted: TunnelLab) -> TunnelLab:
    """Override the fixture of tests/system: the same tests run in the lab of the virtual machine."""
    return natted


def test_the_kernel_encrypts_and_carries_on_without_agents(tunnelled: TunnelLab) -> None:
    for host in ("homehost", "farhost"):
        devices = tunnelled.net.machine(host).run("ip", "-brief", "link", "show", "type", "wireguard").stdout
        assert len(devices.splitlines()) == len(OUTER), devices
    with pinging(tunnelled, CLIENT) as answers:
        for site in SITES:
            tunnelled.agents[site].kill()
        for site in SITES:
            until(lambda site=site: gone(tunnelled, site), "it is known to be gone")
    answered = {int(number) for number in re.findall(r"icmp_seq=(\d+)", answers())}
    assert answered == set(range(1, len(answered) + 1)), "none is lost"
    for site in SITES:
        tunnelled.agents[site].start()
    for site in SITES:
        tunnelled.agents[site].await_eliminating()
    tunnelled.await_up()
    tunnelled.await_in_force()
    assert pinged(tunnelled, CLIENT) == (PINGS, 0)
