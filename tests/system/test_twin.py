# SPDX-License-Identifier: Apache-2.0
"""The far end is a site, too: it copies packets to a terminal like home copies those from it."""

from __future__ import annotations

import re

from lab.stage.command import run
from lab.traffic.web import download, web_server
from tests.system.conftest import GatewayLab
from tests.system.evidence import arrivals, until
from topologies.paper import BRIDGE as HOME
from topologies.paper import SERVER
from topologies.twin import FAR

CLIENT = "192.168.110.3"
PINGS = 5
BYTES = 2_000_000


def segments(twin: GatewayLab, mode: str) -> tuple[int, int]:
    """Download a file and return the packets that reached the server, and the client over Wi-Fi."""
    twin.controller.client.set_mode("client", mode)
    twin.await_in_force()
    server, client = twin.net.machine("server"), twin.net.machine("client")
    with web_server(server, SERVER) as web, arrivals(server, "lan") as up, arrivals(client, "wifi") as down:
        file = web.offer("file", BYTES)
        assert download(client, file.url).sha256 == file.sha256
        return up.since()["lan", "tcp"], down.since()["wifi", "tcp"]


def test_bicast_doubles_segments_in_both_directions(twin: GatewayLab) -> None:
    single_up, single_down = segments(twin, "single")
    both_up, both_down = segments(twin, "bicast")
    assert both_up > 1.5 * single_up
    assert both_down > 1.5 * single_down


def test_traffic_outside_the_class_arrives_once(twin: GatewayLab) -> None:
    twin.controller.client.set_mode("client", "bicast")
    twin.await_in_force()
    with arrivals(twin.net.machine("client"), "wifi") as down:
        down.since()
        twin.net.machine("client").run("ping", "-c", str(PINGS), "-i", "0.05", "-I", CLIENT, SERVER)
        down.await_count(PINGS, "wifi", "ping")
        assert down.since()["wifi", "ping"] == PINGS


def test_a_switch_moves_both_directions(twin: GatewayLab) -> None:
    client = twin.controller.client
    client.set_mode("client", "single")
    for uplink, other in (("lte", "wifi"), ("wifi", "lte")):
        client.set_active("client", uplink)
        twin.await_in_force()
        before = {name: carried(name) for name in (uplink, other)}
        twin.net.machine("client").run("ping", "-c", str(PINGS), "-i", "0.05", "-I", CLIENT, SERVER)
        until(
            lambda uplink=uplink, before=before: all(  # type: ignore[misc]
                now - then >= PINGS for now, then in zip(carried(uplink), before[uplink], strict=True)
            ),
            f"{uplink} has carried all",
        )
        assert all(now - then < PINGS for now, then in zip(carried(other), before[other], strict=True))


def carried(uplink: str) -> tuple[int, int]:
    """Return the packets that arrived over an uplink at home and at the far site, with some neighbour requests."""
    return came(HOME, f"gw-{uplink}"), came(FAR, f"fe-{uplink}")


def came(bridge: str, port: str) -> int:
    told = run("ovs-ofctl", "-O", "OpenFlow13", "dump-ports", bridge, port).stdout
    (packets,) = re.findall(r"rx pkts=(\d+)", told)
    return int(packets)
