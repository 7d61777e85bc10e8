# SPDX-License-Identifier: Apache-2.0
"""Devices that nobody listed get an address from home's host, and their packets ride both uplinks and arrive once."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from lab.processes.agents import LEASES, SETTINGS, eliminating
from lab.processes.controller import OPENFLOW, TREE, controlled
from lab.stage.command import run
from lab.stage.nodes import Machine
from lab.stage.stage import raised
from tests.system.conftest import GatewayLab
from tests.system.evidence import reaches, until
from tests.system.pinging import PINGS
from tests.system.test_twin import carried
from topologies.lan import WEB, WEB6, LanTopo

FILE = TREE / "topologies" / "lan.yaml"
LAN, LAN6 = ip_network("192.168.8.0/24"), ip_network("fd00:8::/64")
HOST, PRINTER = "192.168.8.1", "192.168.8.20"
BICAST = str(TREE / "bicast")
# What a device does with an answer (busybox udhcpc); udhcpc ends when it has one.
SCRIPT = """\
#!/bin/sh
[ "$1" = bound ] || exit 0
ip address flush dev "$interface" scope global
ip address add "$ip/$mask" dev "$interface"
ip route replace default via $router dev "$interface"
echo "$dns"
"""


@pytest.fixture(scope="module")
def script(place: Path) -> Path:
    made = place / "udhcpc"
    made.write_text(SCRIPT)
    made.chmod(0o755)
    return made


@contextmanager
def served(place: Path) -> Iterator[None]:
    """Lead the LAN of this process's namespace to home's bridge and serve its devices."""
    run(BICAST, "bridge", str(FILE), "--site", "home")
    with (place / "dnsmasq.log").open("w") as log:
        words = [BICAST, "lan", str(FILE), "--site", "home", "--directory", str(LEASES.parent)]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait()
        run("ip", "link", "delete", "ve-home")
        for family in ("-4", "-6"):
            for priority in ("8650", "8651", "8652"):
                run("ip", family, "rule", "delete", "priority", priority)
        run("nft", "delete", "table", "inet", "bicast-ve-home")
        run("sysctl", "--quiet", "--write", "net.ipv6.conf.all.forwarding=0")


@pytest.fixture(scope="module")
def home(place: Path) -> Iterator[GatewayLab]:
    with (
        controlled(FILE, SETTINGS, directory=place) as controller,
        raised(LanTopo(shaped=False), controller=OPENFLOW) as net,
        served(place),
    ):
        controller.await_steady()
        both = GatewayLab(net, controller)
        both.returns_soon()
        with eliminating(controller, "home", "far"):
            both.await_in_force()
            yield both


def joined(device: Machine, script: Path, *options: str) -> str:
    """Ask for an address as a device that was just plugged in; return it."""
    words = ("busybox", "udhcpc", "-i", "lan", "-n", "-q", "-t", "10", "-T", "1", "-s", str(script))
    dns = device.run(*words, *options).stdout
    assert dns.split()[-1:] == [HOST], dns
    (address,) = re.findall(r"inet (\S+)/24", device.run("ip", "-4", "address", "show", "dev", "lan").stdout)
    return str(address)


@pytest.fixture(scope="module")
def tablet(home: GatewayLab, script: Path) -> Machine:
    machine = home.net.machine("tablet")
    machine.run("sysctl", "--quiet", "--write", "net.ipv6.conf.lan.disable_ipv6=0")
    joined(machine, script, "-x", "hostname:tablet")
    until(lambda: reaches(machine, "lan", WEB), "the far site is reached")
    return machine


def pinged(device: Machine, target: str) -> tuple[int, int]:
    """Return how many pings were answered, and how many answers were duplicates."""
    said = device.run("ping", "-c", str(PINGS), "-i", "0.01", "-W", "5", target, check=False).stdout
    answered = {int(number) for number in re.findall(r"bytes from .*icmp_seq=(\d+)", said)}
    return len(answered), said.count("DUP!")


def sixth(device: Machine) -> bool:
    return bool(re.findall(r"inet6 fd00:8:\S+/64 scope global(?!.*tentative)", addresses(device)))


def addresses(device: Machine) -> str:
    return device.run("ip", "-6", "address", "show", "dev", "lan").stdout


@pytest.mark.parametrize("target", [WEB, WEB6])
def test_pings_of_an_unlisted_device_use_both_uplinks_and_return_once(
    home: GatewayLab, tablet: Machine, target: str
) -> None:
    if ":" in target:
        until(lambda: sixth(tablet), "the tablet has an address by router advertisement")
        until(lambda: reaches(tablet, "lan", target), f"{target} is reached")
    before = {name: carried(name) for name in ("wifi", "lte")}
    assert pinged(tablet, target) == (PINGS, 0)
    for name, earlier in before.items():
        until(
            lambda name=name, earlier=earlier: all(
                now - then >= PINGS for now, then in zip(carried(name), earlier, strict=True)
            ),
            f"{name} has brought all to both sites",
        )


def test_listed_device_gets_its_address_and_keeps_its_mode(home: GatewayLab, script: Path) -> None:
    printer = home.net.machine("printer")
    assert joined(printer, script) == PRINTER
    until(lambda: reaches(printer, "lan", WEB), "the far site is reached")
    (_, before), (wifi, _) = carried("lte"), carried("wifi")
    assert pinged(printer, WEB) == (PINGS, 0)
    until(lambda: carried("wifi")[0] - wifi >= PINGS, "the answers came by Wi-Fi")
    assert carried("lte")[1] - before < PINGS, "mode single copies nothing"


def test_devices_reach_each_other_directly_and_by_name(home: GatewayLab, tablet: Machine, script: Path) -> None:
    joined(home.net.machine("printer"), script)
    assert reaches(tablet, "lan", PRINTER)
    for name in ("printer", "tablet"):
        said = tablet.run("busybox", "nslookup", f"{name}.home.arpa", HOST).stdout
        (found,) = re.findall(r"Name:\s+\S+\nAddress[^:]*: (192\S+)", said)
        assert ip_address(found) in LAN


def test_status_shows_the_lan_as_one_terminal(home: GatewayLab, tablet: Machine) -> None:
    (lan,) = (one for one in home.controller.client.get("status")["terminals"] if one["name"] == "lan")
    assert [each["address"] for each in lan["addresses"]] == [str(LAN), str(LAN6)]
    assert lan["mode"] == "bicast"
    until(lambda: device_shown(home, "tablet"), "the tablet is shown")
    assert re.search(r"^tablet +home +192\.168\.8\.\d+ +02:00:00:00:08:01 +lan +bicast$", status(), re.MULTILINE)


def status() -> str:
    return run(BICAST, "status").stdout


def device_shown(home: GatewayLab, name: str) -> bool:
    return name in [each["name"] for each in home.controller.client.get("status")["devices"]]


def test_new_device_is_served_and_copied_without_the_controller(
    home: GatewayLab, tablet: Machine, script: Path
) -> None:
    earlier = joined(tablet, script)
    home.controller.kill()
    try:
        tablet.run("ip", "link", "set", "dev", "lan", "address", "02:00:00:00:08:99")
        address = joined(tablet, script)
        assert address != earlier, "a device with another MAC is another device"
        assert reaches(tablet, address, WEB)
        assert pinged(tablet, WEB) == (PINGS, 0)
    finally:
        home.controller.start()
        home.controller.await_steady()
