"""The wide topology is what its gateway file says, and both families pass."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from controller.edges.config import load
from controller.model.config import Site, TerminalAddress
from lab.stage import ovs
from lab.stage.stage import Stage, raised
from topologies.wide import BRIDGE, SERVER4, SERVER6, UPLINKS, WideTopo, both

SITE = load.load("topologies/wide.yaml").sites[0]
PLACES = [(terminal.name, place) for terminal in SITE.terminals for place in terminal.addresses]


@pytest.fixture(scope="module")
def net() -> Iterator[Stage]:
    with raised(WideTopo()) as net:
        give_neighbours(net)
        ovs.ofctl("add-flows", BRIDGE, "-", given="\n".join(flows(net, SITE)) + "\n")
        for uplink in net.links:
            uplink.forward.set(loss_percent=0)
            uplink.backward.set(loss_percent=0)
        yield net


def links(net: Stage, name: str) -> dict[str, str]:
    return {link["ifname"]: link["address"] for link in json.loads(net.machine(name).run("ip", "-j", "link").stdout)}


def ports() -> dict[str, tuple[int, str]]:
    found = re.findall(r" (\d+)\((\S+)\): addr:(\S+)", ovs.ofctl("show", BRIDGE))
    return {name: (int(number), mac) for number, name, mac in found}


def device_of(net: Stage, name: str, place: TerminalAddress) -> str:
    """The terminal's own interface with this address."""
    told = json.loads(net.machine(name).run("ip", "-j", "address").stdout)
    return next(link["ifname"] for link in told for own in link["addr_info"] if own["local"] == str(place.address))


def give_neighbours(net: Stage) -> None:
    """What a gateway answers to ARP and neighbour solicitations."""
    bridge = ports()
    for name, place in PLACES:
        mac = bridge[place.port][1]
        device = device_of(net, name, place)
        for gateway in SITE.subnet(place.subnet).gateways:
            net.machine(name).run("ip", "neigh", "replace", str(gateway.ip), "lladdr", mac, "dev", device)
    for uplink in UPLINKS:
        mac = bridge[f"gw-{uplink.name}"][1]
        for gateway in both(uplink.outer, 2):
            net.machine("router").run("ip", "neigh", "replace", gateway, "lladdr", mac, "dev", uplink.name)


def flows(net: Stage, site: Site) -> list[str]:
    """Each address by the uplink of its side, or by its terminal's default."""
    bridge, router = ports(), links(net, "router")
    lines = []
    for name, place in PLACES:
        family = "ipv6,ipv6" if place.address.version == 6 else "ip,nw"
        terminal = next(terminal for terminal in site.terminals if terminal.name == name)
        uplink = site.subnet(place.subnet).uplink or terminal.default_uplink
        out, out_mac = bridge[f"gw-{uplink}"]
        inside, inside_mac = bridge[place.port]
        own = links(net, name)[device_of(net, name, place)]
        up = f"set_field:{out_mac}->eth_src,set_field:{router[uplink]}->eth_dst,output:{out}"
        down = f"set_field:{inside_mac}->eth_src,set_field:{own}->eth_dst,output:{inside}"
        lines.append(f"in_port={inside},{family}_src={place.address},actions=dec_ttl,{up}")
        lines += [
            f"in_port={bridge[f'gw-{name}'][0]},{family}_dst={place.address},actions=dec_ttl,{down}"
            for name in router
            if f"gw-{name}" in bridge
        ]
    return lines


def test_the_gateway_file_names_the_bridge_and_its_ports(net: Stage) -> None:
    named = {uplink.port for uplink in SITE.uplinks} | set(SITE.inside_ports)
    assert set(ovs.vsctl("list-ports", SITE.bridge).split()) == named
    assert f"dpid:{SITE.dpid:016x}" in ovs.ofctl("show", SITE.bridge)
    assert [uplink.name for uplink in SITE.uplinks] == [uplink.name for uplink in UPLINKS]


def test_there_are_terminals_with_one_address_and_with_one_for_each_uplink(net: Stage) -> None:
    counts = {terminal.name: len(terminal.addresses) for terminal in SITE.terminals}
    assert counts == {"laptop": 6, "phone": 6, "camera": 2, "sensor": 1}


@pytest.mark.parametrize(("name", "place"), PLACES, ids=[f"{name}-{place.address}" for name, place in PLACES])
def test_every_address_reaches_the_server(net: Stage, name: str, place: TerminalAddress) -> None:
    server = SERVER6 if place.address.version == 6 else SERVER4
    ping = ["ping", "-c", "2", "-i", "0.1", "-W", "60", "-I", str(place.address), server]
    told = net.machine(name).run(*ping).stdout
    assert "2 received" in told
    assert "ttl=62" in told


def test_a_packet_takes_the_side_of_its_source_address(net: Stage) -> None:
    counted = ["ip", "-s", "-j", "link", "show", "dsl"]
    before = json.loads(net.machine("router").run(*counted).stdout)[0]["stats64"]["rx"]["packets"]
    net.machine("phone").run("ping", "-c", "5", "-i", "0.1", "-I", "192.168.160.4", SERVER4)
    after = json.loads(net.machine("router").run(*counted).stdout)[0]["stats64"]["rx"]["packets"]
    assert after - before >= 5
