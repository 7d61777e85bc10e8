# SPDX-License-Identifier: Apache-2.0
"""Tunnels are system ports of the kernel's datapath like any other, and the kernel encrypts them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.traffic.web import download, sha256, upload, web_server
from tests.system.evidence import until
from tests.system.pinging import PINGS, copies, pinged, pinging
from tests.system.test_tunnels import *  # noqa: F403
from tests.system.test_tunnels import gone
from tests.system.tunnelled import CLIENT, SITES, TunnelLab
from topologies.natted import OUTER
from topologies.paper import SERVER

UNDERLAYS = (("homehost", "un-wifi"), ("homehost", "un-lte"), ("farhost", "un"))
FILE_BYTES, LEAST_COPIES = 3_000_000, 100


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
        for site in SITES:
            tunnelled.agents[site].start()
        for site in SITES:
            tunnelled.agents[site].await_eliminating()
        tunnelled.await_up()
        tunnelled.await_in_force()
    answered = {int(number) for number in re.findall(r"icmp_seq=(\d+)", answers())}
    assert answered == set(range(1, len(answered) + 1)), "none is lost"
    assert pinged(tunnelled, CLIENT) == (PINGS, 0)


def test_tunnels_carry_on_while_homes_agent_is_away(tunnelled: TunnelLab) -> None:
    with pinging(tunnelled, CLIENT) as answers:
        tunnelled.agents["home"].kill()
        until(lambda: not any(tunnelled.tunnel("far", name)["up"] for name in OUTER), "far has noticed")
        until(lambda: gone(tunnelled, "home"), "it is known to be gone")
        tunnelled.agents["home"].start()
        tunnelled.agents["home"].await_eliminating()
        tunnelled.await_up()
        tunnelled.await_in_force()
    answered = {int(number) for number in re.findall(r"icmp_seq=(\d+)", answers())}
    assert answered == set(range(1, len(answered) + 1)), "none is lost"


@pytest.fixture
def merging(tunnelled: TunnelLab) -> Iterator[TunnelLab]:
    """Have the devices below the tunnels merge arriving packets (GRO)."""

    def each(value: str) -> None:
        for host, device in UNDERLAYS:
            tunnelled.net.machine(host).run("ethtool", "--offload", device, "gro", value, "rx-gro-list", value)

    each("on")
    yield tunnelled
    each("off")


def test_copies_of_a_transfer_are_eliminated_above_devices_that_merge(merging: TunnelLab, tmp_path: Path) -> None:
    client, server = merging.net.machine("client"), merging.net.machine("server")
    before = {site: copies(merging, site) for site in SITES}
    with web_server(server, SERVER, mptcp=False) as web:
        offered = web.offer("down", FILE_BYTES)
        assert download(client, offered.url, mptcp=False).sha256 == offered.sha256
        file = tmp_path / "content"
        file.write_bytes(bytes(range(256)) * (FILE_BYTES // 256))
        upload(client, file, web.url("up"))
        assert sha256(web.file("up")) == sha256(file)
    assert pinged(merging, CLIENT) == (PINGS, 0)
    for site in SITES:
        now = copies(merging, site)
        assert total(now, "eliminated") - total(before[site], "eliminated") > LEAST_COPIES
        assert total(now, "unidentified") == total(before[site], "unidentified")


def total(paths: dict[str, Any], verdict: str) -> int:
    return sum(path[verdict] for path in paths.values())
