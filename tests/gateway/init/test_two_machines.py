# SPDX-License-Identifier: Apache-2.0
"""Two machines under systemd, each with an Open vSwitch, become a home and its far site by `bicast init`.

home                              this test, the internet
enp1s0 198.51.100.10 ───────────── h1 198.51.100.1
wwan0 192.0.2.10 ───────────────── h2 192.0.2.1         ┌── far
enp3s0 ── lan (a device's cable)      203.0.113.1 un ───┴── eth0 203.0.113.9
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.gateway.conftest import shell
from tests.setup.systemd import Systemd, booted
from tests.system.evidence import until
from tests.system.test_lan import SCRIPT

BICAST = "/opt/bicast/bicast"
UNUSED = f"203.0.113.9:8654/{'A' * 32}.{'A' * 52}"
PREPARE = """
mkdir -p /run/proc /etc/systemd/system/service.d
mount -t proc none /run/proc
mount --bind /run/proc/sys/net /proc/sys/net
printf "[Unit]\\nDefaultDependencies=no\\n" >/etc/systemd/system/service.d/test.conf
mkdir -p /etc/NetworkManager
rm -rf /etc/openvswitch/conf.db /etc/bicast /etc/default/bicast /var/lib/bicast* /run/bicast*
"""
SNAPSHOT = r"""
ip -brief link | cut -d" " -f1 | cut -d@ -f1 | sort
ip -brief -4 address
ip -4 route show table all | sort; ip rule; ip -6 rule
nft list ruleset
ovs-vsctl list-br; ovs-vsctl get-ssl
grep -r . /proc/sys/net/ipv4/conf/*/forwarding /proc/sys/net/ipv4/conf/*/rp_filter /proc/sys/net/ipv4/ip_forward
grep -r . /proc/sys/net/ipv6/conf/*/forwarding /proc/sys/net/ipv6/conf/*/disable_ipv6
grep -r . /proc/sys/net/ipv6/conf/*/accept_ra
for each in eth0 enp1s0 wwan0 enp3s0; do [ ! -e /sys/class/net/$each ] || ethtool -k $each; done
find /etc /usr/local /var/lib -xdev '(' -path /etc/openvswitch -o -path /var/lib/openvswitch -o -path /var/lib/systemd \
    -o -name 'group*' -o -name 'gshadow*' -o -name .pwd.lock ')' -prune -o -type d -printf '%p %m\n' \
    -o -printf '%p %m %s %T@ %l\n' | sort
cut -d: -f1 /etc/group
systemctl list-units --all --no-legend --plain 'bicast*'
"""


@dataclass
class Machine:
    systemd: Systemd

    def __post_init__(self) -> None:
        self.pid = int(self.systemd._inside[1].partition("=")[2])

    def shell(self, line: str) -> str:
        return self.systemd.run("bash", "-ec", line)

    def bicast(self, line: str) -> subprocess.Popen[str]:
        return self.systemd.popen(
            "bash", "-c", f"exec {BICAST} {line}", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def cable(self, device: str, other: str) -> None:
        """Connect a device of this machine with one here."""
        shell(f"ip link add {other} type veth peer name {device} netns {self.pid} && ip link set {other} up")
        self.shell(f"ip link set {device} up")


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[Machine, Machine]]:
    with ExitStack() as stack:
        both = []
        for name in ("home", "far"):
            place = tmp_path / name
            place.mkdir()
            both.append(Machine(stack.enter_context(booted(place, PREPARE))))
        home, far = both
        home.cable("enp1s0", "h1")
        home.cable("wwan0", "h2")
        home.cable("enp3s0", "lan")
        far.cable("eth0", "un")
        shell("sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0")
        for own, device in (("198.51.100.1/24", "h1"), ("192.0.2.1/24", "h2"), ("203.0.113.1/24", "un")):
            shell(f"ip address add {own} dev {device}")
        home.shell("ip address add 198.51.100.10/24 dev enp1s0; ip address add 192.0.2.10/24 dev wwan0")
        home.shell("ip route add default via 198.51.100.1 metric 100; ip route add default via 192.0.2.1 metric 200")
        far.shell("ip address add 203.0.113.9/24 dev eth0; ip route add default via 203.0.113.1")
        for each in both:
            each.systemd.ctl("start", "openvswitch-switch")
        yield home, far


def invitation_of(waiting: subprocess.Popen[str]) -> str | None:
    """Return the invitation that `init --far` prints while it waits; None: both machines are ready."""
    assert waiting.stdout is not None
    printed = []
    for line in waiting.stdout:
        printed.append(line)
        if line.strip().startswith("bicast init "):
            return line.split()[-1]
        if "nothing to change" in line:
            waiting.communicate()
            return None
    raise AssertionError("".join(printed))


def init(home: Machine, far: Machine, options: str = "") -> None:
    """Type the line of the rented machine at home."""
    waiting = far.bicast(f"init --far {options}")
    typed = home.bicast(f"init {invitation_of(waiting)} --lan enp3s0")
    there, here = typed.communicate()[0], waiting.communicate()[0]
    assert (typed.returncode, waiting.returncode) == (0, 0), f"home:\n{there}\nfar:\n{here}"


def tunnels_up(far: Machine) -> list[bool]:
    found = json.loads(far.shell(f"{BICAST} status --json"))
    return [uplink["tunnel"]["up"] for gateway in found["gateways"] for uplink in gateway["uplinks"]]


def assert_connected(far: Machine) -> None:
    found = json.loads(far.shell(f"{BICAST} status --json"))
    assert {each["name"]: each["state"] for each in found["agents"]} == {"home": "here", "far": "here"}
    assert tunnels_up(far) == [True] * 4


def active(far: Machine) -> str:
    found = json.loads(far.shell(f"{BICAST} status --json"))
    return str(next(each["active_uplink"] for each in found["terminals"] if each["name"] == "lan"))


def is_connected(far: Machine) -> bool:
    found = json.loads(far.shell(f"{BICAST} status --json"))
    tunnels = [uplink["tunnel"]["up"] for gateway in found["gateways"] for uplink in gateway["uplinks"]]
    return all(tunnels) and {each["state"] for each in found["agents"]} == {"here"}


def assert_as_before(machines: tuple[Machine, ...], before: list[str]) -> None:
    for each, earlier in zip(machines, before, strict=True):
        now, then = each.shell(SNAPSHOT).splitlines(), earlier.splitlines()
        assert [set(now) - set(then), set(then) - set(now)] == [set(), set()]
        assert now == then


@contextmanager
def plugged_in(place: Path) -> Iterator[None]:
    """Connect a new device to home's LAN and have it ask for an address."""
    script = place / "udhcpc"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    shell("ip netns add tablet && ip link set lan netns tablet && ip -n tablet link set lan up")
    try:
        shell(f"ip netns exec tablet busybox udhcpc -i lan -n -q -t 20 -T 1 -s {script}")
        yield
    finally:
        shell(f"ip -n tablet link set lan netns {os.getpid()} && ip netns delete tablet")


def answers_once(target: str) -> bool:
    """Return whether pings from the device are answered, none of them twice."""
    ping = f"ip netns exec tablet ping -W 1 {target}"
    until(lambda: " 0% packet loss" in shell(f"{ping} -c 1 || true"), f"{target} is reached")
    said = shell(f"{ping} -c 20 -i 0.05")
    return " 0% packet loss" in said and "DUP!" not in said


def assert_tunnels_survive_restarts(machines: tuple[Machine, Machine]) -> None:
    far = machines[1]
    devices = "for each in /sys/class/net/t[nf]-*; do echo $each $(cat $each/ifindex); done"
    before = [each.shell(devices) for each in machines]
    assert [len(each.splitlines()) for each in before] == [2, 2]
    for machine in machines:
        machine.systemd.ctl("restart", "bicast-agent@gateway")
        until(lambda: is_connected(far), "all is connected again")
    assert [each.shell(devices) for each in machines] == before


CALL = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as call:
    call.settimeout(0.1)
    call.connect(("203.0.113.1", 5060))
    while True:
        try:
            call.send(b"hello")
            print(call.recv(100).decode(), flush=True)
        except OSError:
            continue
"""


@contextmanager
def telephone() -> Iterator[None]:
    """Answer each datagram at 203.0.113.1 with its source address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("203.0.113.1", 5060))

        def answer() -> None:
            while (said := server.recvfrom(100))[0] != b"end":
                server.sendto(said[1][0].encode(), said[1])

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"end", server.getsockname())
            thread.join()


def assert_call_survives_the_far_site(far: Machine) -> None:
    """A call on one socket goes on by home's own NAT when the far site stops."""
    words = ["ip", "netns", "exec", "tablet", sys.executable, "-c", CALL]
    with telephone(), subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as call:
        assert call.stdout is not None
        try:
            assert call.stdout.readline() == "203.0.113.9\n", "it leaves by the far site"
            far.systemd.ctl("stop", "bicast-agent@gateway")
            assert "198.51.100.10\n" in iter(call.stdout.readline, ""), "home's own address"
        finally:
            call.kill()
    far.systemd.ctl("start", "bicast-agent@gateway")
    until(lambda: is_connected(far), "all is connected again")


FILES = (
    "cat $(find /etc/bicast /etc/default/bicast -type f); ls -lR --time-style=full-iso /etc/bicast /etc/systemd/system"
)


def test_two_machines_become_a_home_and_its_far_site_and_bare_again(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    home, far = machines
    before = [each.shell(SNAPSHOT) for each in machines]
    init(home, far)
    assert_connected(far)
    with plugged_in(tmp_path):
        assert answers_once("203.0.113.1"), "the internet, through the far site"
        dropped = "type filter hook forward priority 0; iifname h1 drop; oifname h1 drop;"
        shell(f"nft 'table inet cut {{ chain pass {{ {dropped} }}; }}'")
        until(lambda: active(far) == "wwan0", "home has left the uplink that is dead behind its router")
        assert answers_once("203.0.113.1"), "over the other uplink"
        until(lambda: "via 192.0.2.1 dev wwan0" in home.shell("ip route get 203.0.113.9"), "the controller too")
        shell("nft delete table inet cut")
        until(lambda: is_connected(far), "all is connected again")
        assert_tunnels_survive_restarts(machines)
        assert_call_survives_the_far_site(far)
    made = [each.shell(FILES) for each in machines]
    assert "nothing to change" in far.shell(f"{BICAST} init --far")
    assert "nothing to change" in home.shell(f"{BICAST} init {UNUSED}")
    assert made == [each.shell(FILES) for each in machines]
    assert "ca-signing.key" not in home.shell("ls /etc/bicast/tls")
    assert "interface-name:enp3s0" in home.shell("cat /etc/NetworkManager/conf.d/bicast.conf")
    for each in machines:
        each.shell(f"{BICAST} uninstall")
        assert "nothing to remove" in each.shell(f"{BICAST} uninstall")
    assert_as_before(machines, before)


def test_a_machine_becomes_a_home_without_a_far_site_and_bare_again(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    home, _ = machines
    before = home.shell(SNAPSHOT)
    assert "would use the uplinks enp1s0 (enp1s0), wwan0 (wwan0)" in home.shell(
        f"{BICAST} init --alone --lan enp3s0 --dry-run"
    )
    assert "ready: connect your devices to enp3s0" in home.shell(f"{BICAST} init --alone --lan enp3s0")
    with plugged_in(tmp_path):
        assert answers_once("203.0.113.1"), "the internet, by an uplink"
    found = json.loads(home.shell(f"{BICAST} status --json"))
    assert {each["name"]: each["state"] for each in found["agents"]} == {"home": "here"}
    assert [(each["name"], each["acting"]) for each in found["terminals"]] == [("lan", "single")]
    made = home.shell(FILES)
    assert "nothing to change" in home.shell(f"{BICAST} init --alone --lan enp3s0")
    assert made == home.shell(FILES)
    home.shell(f"{BICAST} uninstall")
    assert_as_before((home,), [before])


def killed_at(line: int, process: subprocess.Popen[str]) -> bool:
    """Kill a process by SIGKILL at this line of its changes. Return whether it got so far."""
    assert process.stdout is not None
    changes = 0
    for each in process.stdout:
        changes += each.startswith("changed")
        if changes == line:
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
            break
    process.communicate()
    return changes == line


def test_init_changes_nothing_where_it_refuses_or_only_tries(machines: tuple[Machine, Machine]) -> None:
    home, far = machines
    before = [each.shell(SNAPSHOT) for each in machines]
    assert "would enable and start bicast-bridge" in far.shell(f"{BICAST} init --far --dry-run")
    tried = home.shell(f"{BICAST} init {UNUSED} --lan enp3s0 --uplink fibre=enp1s0 --uplink lte=wwan0 --dry-run")
    assert "would use the uplinks fibre (enp1s0), lte (wwan0)" in tried
    for machine, words, why in (
        (home, f"init {UNUSED} --lan enp3s0", "nothing answers at 203.0.113.9:8654"),
        (home, f"init {UNUSED} --lan gone", "this machine has no such device"),
        (home, f"init {UNUSED}", "--lan DEVICE"),
        (home, "init --far --device enp3s0", "which is not public"),
        (far, "init --far --lan enp3s0", "belong to home"),
    ):
        assert why in machine.shell(f"{BICAST} {words} 2>&1 || true")
    far.shell("nft 'table inet own { chain input { type filter hook input priority 0; policy drop; }; }'")
    assert "accept UDP 51820, " in far.shell(f"{BICAST} init --far 2>&1 || true")
    far.shell("nft delete table inet own")
    assert_as_before(machines, before)


@pytest.mark.slow
def test_far_site_behind_a_nat_and_with_ipv6(machines: tuple[Machine, Machine]) -> None:
    home, far = machines
    far.shell("ip address flush dev eth0; ip address add 10.0.0.9/24 dev eth0; ip route add default via 10.0.0.1")
    far.shell("ip address add 2001:db8::9/64 dev eth0 nodad; ip route add default via 2001:db8::1 dev eth0")
    shell("ip address add 10.0.0.1/24 dev un; ip address delete 203.0.113.1/24 dev un")
    translated = "type nat hook prerouting priority 0; ip daddr 203.0.113.9 dnat to 10.0.0.9;"
    shell(f"nft 'table ip nat {{ chain in {{ {translated} }}; }}'")
    before = [each.shell(SNAPSHOT) for each in machines]
    init(home, far, "--address 203.0.113.9")
    assert_connected(far)
    assert "inet6 fd" in home.shell("ip address show dev enp3s0")
    for each in machines:
        each.shell(f"{BICAST} uninstall")
    assert_as_before(machines, before)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["far", "home"])
def test_killed_init_goes_on_when_it_is_typed_again(machines: tuple[Machine, Machine], who: str) -> None:
    """Each run is killed a few changes further, until both machines are ready, and so is each `uninstall`."""
    home, far = machines
    before = [each.shell(SNAPSHOT) for each in machines]
    for attempt in range(60):
        waiting = far.bicast("init --far")
        word = invitation_of(waiting)
        if word is None:
            break
        typed = home.bicast(f"init {word} --lan enp3s0")
        victim, other = (waiting, typed) if who == "far" else (typed, waiting)
        killed = killed_at(1 + attempt % 3, victim)
        told = other.communicate()[0]
        assert killed or victim.returncode == other.returncode == 0, told
    assert "nothing to change" in far.shell(f"{BICAST} init --far")
    until(lambda: tunnels_up(far) == [True] * 4, "an agent that was just started makes its tunnels")
    assert_connected(far)
    for each in machines:
        assert not all(killed_at(line, each.bicast("uninstall")) for line in range(1, 60, 3))
        assert "nothing to remove" in each.shell(f"{BICAST} uninstall")
    assert_as_before(machines, before)
