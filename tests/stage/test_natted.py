"""What lies between natted.py's sites translates, forgets, narrows and moves; a tunnel's port awaits its device."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.stage import ovs
from lab.stage.command import run
from lab.stage.stage import Stage, raised
from topologies.natted import FAR_OUTER, INNER, OUTER, NattedTopo, behind_one_address, narrowed, nat

PORT, OWN_PORT = 4789, 4790
# Tells each datagram's sender where it came from.
ECHO = f"""
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
    ear.bind(("", {PORT}))
    print("ready", flush=True)
    while True:
        sender = ear.recvfrom(9000)[1]
        ear.sendto(" ".join(map(str, sender)).encode(), sender)
"""
# Asks once, with DF set and from one and the same port.
ASK = f"""
import socket, sys
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mouth:
    mouth.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, sys.argv[1].encode())
    mouth.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    mouth.settimeout(float(sys.argv[3]))
    mouth.bind(("", {OWN_PORT}))
    mouth.sendto(bytes(int(sys.argv[2])), ("{FAR_OUTER}", {PORT}))
    try:
        print(mouth.recv(9000).decode())
    except TimeoutError:
        print("nothing")
"""
Came = tuple[str, int]


@pytest.fixture(scope="module")
def net() -> Iterator[Stage]:
    with raised(NattedTopo(shaped=False)) as net:
        words = [sys.executable, "-c", ECHO]
        echo = net.machine("farhost").popen(words, stdout=subprocess.PIPE, text=True)
        assert echo.stdout is not None
        assert echo.stdout.readline() == "ready\n"
        yield net
        echo.terminate()
        echo.communicate()


def came_from(net: Stage, uplink: str, payload: int = 100, within_s: float = 60.0) -> Came | None:
    """A datagram from homehost by this uplink, as farhost sees it; None: it did not come there and back."""
    words = [f"un-{uplink}", str(payload), str(within_s)]
    said = net.machine("homehost").run(sys.executable, "-c", ASK, *words).stdout.split()
    return None if said == ["nothing"] else (said[0], int(said[1]))


def test_each_uplink_has_an_outer_address_and_a_port_that_stay(net: Stage) -> None:
    for uplink, outer in OUTER.items():
        first = came_from(net, uplink)
        assert first is not None
        assert first[0] == f"{outer}.10"
        assert first[1] != OWN_PORT
        assert came_from(net, uplink) == first


def test_a_nat_that_redials_has_another_address_or_has_forgotten(net: Stage) -> None:
    before = came_from(net, "wifi")
    nat(net, "wifi").redial(f"{OUTER['wifi']}.77/24")
    moved = came_from(net, "wifi")
    nat(net, "wifi").redial()
    forgotten = came_from(net, "wifi")
    nat(net, "wifi").redial(f"{OUTER['wifi']}.10/24")
    back = came_from(net, "wifi")
    assert before is not None and moved is not None and forgotten is not None and back is not None
    assert [each[0].rpartition(".")[2] for each in (before, moved, forgotten, back)] == ["10", "77", "77", "10"]
    assert len({each[1] for each in (before, moved, forgotten, back)}) > 2, "ports come by chance"


def test_both_uplinks_can_be_behind_one_address(net: Stage) -> None:
    with behind_one_address(net):
        for uplink in INNER:
            nat(net, uplink).redial()  # what was there before keeps its way through the internet
        both = {uplink: came_from(net, uplink) for uplink in INNER}
        assert {came[0] for came in both.values() if came} == {"203.0.113.1"}
        assert both["wifi"] != both["lte"]
    nat(net, "wifi").redial()
    alone = came_from(net, "wifi")
    assert alone is not None
    assert alone[0] == f"{OUTER['wifi']}.10"


def test_a_narrow_middle_swallows_what_is_longer_and_says_nothing(net: Stage) -> None:
    headers = 20 + 8
    with narrowed(net, "wifi", 1400):
        assert came_from(net, "wifi", 1400 - headers) is not None
        assert came_from(net, "wifi", 1401 - headers, within_s=1) is None
        assert came_from(net, "wifi", 1401 - headers, within_s=1) is None, "nobody told the sender"
        assert came_from(net, "lte", 1500 - headers) is not None
    assert came_from(net, "wifi", 1500 - headers) is not None


@contextmanager
def device(net: Stage, name: str) -> Iterator[None]:
    """Made in homehost, and moved to where the bridges are."""
    words = ["type", "vxlan", "id", "7", "dstport", "4791", "dev", "un-wifi"]
    net.machine("homehost").run("ip", "link", "add", name, *words)
    net.machine("homehost").run("ip", "link", "set", name, "netns", str(os.getpid()))
    run("ip", "link", "set", name, "up")
    try:
        yield
    finally:
        run("ip", "link", "del", name)


def test_a_tunnel_s_port_has_its_number_from_when_its_device_is_there(net: Stage) -> None:
    assert ovs.vsctl("get", "Interface", "tn-wifi", "ofport").strip() == "-1"
    with device(net, "tn-wifi"):
        ovs.vsctl("wait-until", "Interface", "tn-wifi", "ofport=3")
        assert " 3(tn-wifi): " in ovs.ofctl("show", "br-home")
