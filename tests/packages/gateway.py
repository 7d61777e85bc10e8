# SPDX-License-Identifier: Apache-2.0
"""A gateway under systemd, between a phone and a server.

phone ── lan ── br-home ── wifi ── router and server
                       └── lte ──┘
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.traffic import datagrams
from lab.traffic.numbered import Numbered, numbered
from tests.packages.release import NAMES, Release
from tests.setup.systemd import Systemd
from tests.system.evidence import until

FILE = "/etc/bicast/gateway.yaml"
PHONE, SERVER = "192.168.110.3", "198.51.100.1"
RATE_PPS = 50
SETTLED_S = 60.0
DATAPATH = "system" if os.environ.get("BICAST_VM") == "1" else "netdev"  # the emulated machine has no tap device
GATEWAY = f"""\
controller: {{agents: {{}}}}
sites:
  home:
    dpid: "0000000000000001"
    bridge: br-home
    datapath: {DATAPATH}
    uplinks:
      wifi: {{port: wifi, addresses: [192.168.100.2/24], next_hops: [{{address: 192.168.100.1}}]}}
      lte: {{port: lte, addresses: [192.168.200.2/24], next_hops: [{{address: 192.168.200.1}}]}}
    subnets:
      home: {{gateways: [192.168.110.1/24]}}
    terminals:
      phone: {{addresses: [{{address: {PHONE}, port: lan}}], mode: single}}
"""
NETWORK = (
    "ip netns add phone",
    "ip netns add server",
    "ip link add lan up type veth peer name eth0 netns phone",
    "ip link add wifi up type veth peer name wifi netns server",
    "ip link add lte up type veth peer name lte netns server",
    "ip -n phone link set lo up && ip -n phone link set eth0 up",
    f"ip -n phone address add {PHONE}/24 dev eth0",
    "ip -n phone route add default via 192.168.110.1",
    "ip -n server link set lo up && ip -n server link set wifi up && ip -n server link set lte up",
    f"ip -n server address add {SERVER}/32 dev lo",
    "ip -n server address add 192.168.100.1/24 dev wifi",
    "ip -n server address add 192.168.200.1/24 dev lte",
    "ip -n server route add 192.168.110.0/24 via 192.168.100.2",
    # Open vSwitch's userspace datapath completes no checksums.
    "ip netns exec phone ethtool -K eth0 tx off",
    *(f"ip netns exec server ethtool -K {name} tx off" for name in ("wifi", "lte")),
)


def prepared() -> str:
    return "\n".join(NETWORK)


@dataclass(frozen=True, slots=True)
class Host:
    """A network namespace of the machine."""

    name: str
    systemd: Systemd
    datagrams: Path

    def popen(self, words: list[str], **settings: Any) -> subprocess.Popen[str]:
        """Run lab/traffic/datagrams.py, the only program of the lab that these machines have."""
        inside = ["ip", "netns", "exec", self.name, "python3", str(self.datagrams), *words[2:]]
        return self.systemd.popen(*inside, stdout=subprocess.PIPE, **settings)


class GatewayMachine:
    def __init__(self, systemd: Systemd, place: Path) -> None:
        self.systemd, self._place = systemd, place
        systemd.ctl("start", "systemd-tmpfiles-setup")  # systemd's own files are there before ours
        self.run = systemd.run
        program = self.copied(Path(datagrams.__file__))
        self.phone, self.server = (Host(name, systemd, program) for name in ("phone", "server"))

    def copied(self, file: Path) -> Path:
        """Return the file's copy where the machine sees it."""
        return Path(shutil.copy(file, self._place))

    def install(self, release: Release, *names: str) -> None:
        files = [str(self.copied(release.file(name))) for name in names or NAMES[:2]]
        self.run("env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "--install", "--force-confold", *files)

    def files(self) -> set[str]:
        """Return all files, but those of programs that are no packages of ours and change by running."""
        pruned = " -o ".join(f"-path ./{each}" for each in ("proc", "sys", "dev", "run", "tmp", "mnt"))
        found = self.run("sh", "-c", rf"cd / && find . -xdev \( {pruned} -o -path .{self._place} \) -prune -o -print")
        changing = ("var/lib/(dpkg|systemd|private)", "var/(log|cache)", "(var/lib|etc)/openvswitch")
        others = rf"\./({'|'.join(changing)}|(var|etc)/\.updated|etc/machine-id)"
        return {line for line in found.splitlines() if not re.match(others, line)}

    def configure(self) -> None:
        (self._place / "gateway.yaml").write_text(GATEWAY)
        self.run("install", "-D", "-m", "644", str(self._place / "gateway.yaml"), FILE)

    def start(self) -> None:
        """Do what docs/how-to/install.md says, and start Open vSwitch, which a boot would have started."""
        self.configure()
        self.run("bicast", "check", FILE)
        self.systemd.ctl("start", "openvswitch-switch")
        self.systemd.ctl("enable", "--now", "bicast", "bicast-bridge")
        self.await_steady()

    def resident_kb(self, unit: str) -> int:
        process = self.run("cat", f"/proc/{self.systemd.property(unit, 'MainPID')}/status")
        return int(re.search(r"^VmRSS:\s+(\d+) kB$", process, re.MULTILINE)[1])

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.run("bicast", "status", "--json"))
        return answer

    def await_steady(self) -> None:
        until(self._steady, "the gateway is steady", SETTLED_S)

    def _steady(self) -> bool:
        try:
            return all(each["state"] == "steady" for each in self.status()["gateways"])
        except AssertionError:  # no controller answers yet
            return False

    def join(self, name: str, role: str, agent: str = "bicast-agent", *options: str) -> None:
        words = self.run("bicast", "enroll", name, "--role", role).splitlines()
        line = next(line for line in words if " join " in line)
        self.run(agent, *shlex.split(line.partition(" && ")[0])[1:], *options)

    def await_agent(self, name: str, version: str) -> None:
        def reported() -> bool:
            try:
                agents = self.status()["agents"]
            except AssertionError:
                return False
            return any((one["name"], one["state"], one["version"]) == (name, "here", version) for one in agents)

        until(reported, f"agent {name} of version {version} reports", SETTLED_S)

    def _reached(self) -> bool:
        try:
            self.run("ip", "netns", "exec", "phone", "ping", "-c", "1", "-W", "1", SERVER)
        except AssertionError:
            return False
        return True

    @contextmanager
    def call(self) -> Iterator[tuple[Numbered, Numbered]]:
        """Send datagrams from the phone to the server and back, once the gateway has learned who they are."""
        until(self._reached, "the phone reaches the server")
        with (
            numbered(self.phone, self.server, SERVER, RATE_PPS) as up,
            numbered(self.server, self.phone, PHONE, RATE_PPS) as down,
        ):
            yield up, down
