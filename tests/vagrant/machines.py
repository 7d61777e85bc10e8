# SPDX-License-Identifier: Apache-2.0
"""The machines of the Vagrantfile in QEMU, and a `vagrant` that reaches them."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.setup.place import TREE
from tests.setup.test_vagrantfile import machines as vagrantfile

ROUTER = "router"
BOOTED_WITHIN_S, PROVISIONED_WITHIN_S = 600, 1500
STAND_IN = Path(__file__).with_name("script-template")


class Machine:
    def __init__(self, name: str, described: Mapping[str, Any], box: Path, port: int) -> None:
        self.name, self._described, self._box, self.port = name, described, box, port

    @property
    def networks(self) -> list[tuple[str, str]]:
        """Return each network with this machine's MAC there."""
        found = ((each["virtualbox__intnet"], each["mac"]) for each in self._described["networks"])
        return [(network, ":".join(re.findall("..", mac.lower()))) for network, mac in found]

    @contextmanager
    def running(self, place: Path, nics: Sequence[str]) -> Iterator[None]:
        """Run the machine. It ends with this process, however that ends. What it writes is gone then."""
        host = f"user,id=host,restrict=off,hostfwd=tcp:127.0.0.1:{self.port}-:22"
        words = [
            *("setpriv", "--pdeathsig", "KILL", "nice", "-n", "10", "qemu-system-x86_64"),
            *("-accel", "tcg,thread=multi", "-cpu", "Nehalem", "-smp", "2", "-m", "1G"),  # setup/vm.sh says why
            *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
            *("-serial", f"file:{place / self.name}.console"),
            *("-kernel", f"{self._box}.kernel", "-initrd", f"{self._box}.initrd"),
            *("-append", "root=/dev/vda rw net.ifnames=0 console=ttyS0 quiet mitigations=off"),
            *("-drive", f"file={self._box},format=raw,if=virtio,snapshot=on"),
            *("-netdev", host, "-device", "virtio-net-pci,netdev=host"),
            *nics,
        ]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL) as process:
            try:
                yield
            finally:
                process.kill()

    def ssh(self, command: str) -> list[str]:
        return [
            *("ssh", "-q", "-i", str(self._box.with_name("key")), "-p", str(self.port)),
            *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=60"),
            *("vagrant@127.0.0.1", command),
        ]

    def run(self, command: str, given: str | None = None) -> str:
        done = subprocess.run(
            self.ssh(command), input=given, capture_output=True, text=True, errors="replace",
            timeout=PROVISIONED_WITHIN_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{self.name}: {command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def await_booted(self) -> None:
        deadline = time.monotonic() + BOOTED_WITHIN_S
        while subprocess.run(self.ssh("true"), capture_output=True, check=False).returncode != 0:
            assert time.monotonic() < deadline, f"{self.name} has no ssh within {BOOTED_WITHIN_S} s"
            time.sleep(1)

    def share_the_tree(self) -> None:
        (folder,) = self._described["folders"]
        self.run(f"sudo install -d -o vagrant {folder['to']}")
        *ssh, host, _ = self.ssh("")
        words = ["rsync", "--archive", "--delete", *(f"--exclude={each}" for each in folder["without"])]
        subprocess.run([*words, "-e", shlex.join(ssh), f"{TREE}/", f"{host}:{folder['to']}"], check=True)

    def become_vyos(self) -> None:
        self.run("sudo apt-get install --quiet=2 tcpdump")  # VyOS has it
        self.run("sudo usermod --gid vyattacfg vagrant && sudo ln -s bash /bin/vbash")
        at = "/opt/vyatta/etc/functions"
        self.run(f"sudo install -d {at} && sudo tee {at}/script-template >/dev/null", STAND_IN.read_text())

    def provision(self, *names: str) -> None:
        """Run the scripts as Vagrant does: uploaded, then executed, by root if nothing else is said."""
        for name, each in self._described["provisions"].items():
            if names and name not in names:
                continue
            script = each["inline"] if each["inline"].startswith("#!") else f"#!/bin/bash -l\n{each['inline']}\n"
            self.run(f"cat >/tmp/{name} && chmod +x /tmp/{name}", script)
            self.run(f"/tmp/{name}" if each.get("privileged") is False else f"sudo /tmp/{name}")


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        listening = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in listening]


def cabled(machines: Sequence[Machine], place: Path) -> dict[str, list[str]]:
    """Return QEMU's words for each machine: the first one of a network listens to the others, and is their hub."""
    words: dict[str, list[str]] = {each.name: [] for each in machines}
    members: dict[str, list[Machine]] = {}
    for machine in machines:
        for network, _ in machine.networks:
            members.setdefault(network, []).append(machine)
    for number, (network, there) in enumerate(members.items()):
        first, *others = there
        for other in others:
            path, end = place / f"{network}-{other.name}", f"{network}-{other.name}"
            at = f"addr.type=unix,addr.path={path}"
            words[first.name] += ["-netdev", f"stream,id={end},server=on,{at}"]
            words[first.name] += ["-netdev", f"hubport,id=hub-{end},hubid={number},netdev={end}"]
            words[other.name] += ["-netdev", f"stream,id={network},server=off,{at}"]
        words[first.name] += ["-netdev", f"hubport,id={network},hubid={number}"]
    for machine in machines:
        for network, mac in machine.networks:
            words[machine.name] += ["-device", f"virtio-net-pci,netdev={network},mac={mac}"]
    return words


@contextmanager
def booted(box: Path, place: Path) -> Iterator[dict[str, Machine]]:
    """Boot all machines and provision them, as `vagrant up` does."""
    described = vagrantfile()
    ports = free_ports(len(described))
    machines = [Machine(name, each, box, port) for (name, each), port in zip(described.items(), ports, strict=True)]
    nics = cabled(machines, place)
    with ExitStack() as running:
        for each in machines:
            running.enter_context(each.running(place, nics[each.name]))
            listening = [word.split("addr.path=")[1] for word in nics[each.name] if "server=on" in word]
            while not all(Path(path).exists() for path in listening):
                time.sleep(0.1)
        with ThreadPoolExecutor() as pool:
            list(pool.map(brought_up, machines))
        yield {each.name: each for each in machines}


def brought_up(machine: Machine) -> None:
    machine.await_booted()
    print(f"vagrant-test: {machine.name} is up", file=sys.stderr, flush=True)
    if machine.name == ROUTER:
        machine.become_vyos()
    else:
        machine.share_the_tree()
    machine.provision()
    print(f"vagrant-test: {machine.name} is provisioned", file=sys.stderr, flush=True)
