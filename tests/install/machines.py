# SPDX-License-Identifier: Apache-2.0
"""The two machines in QEMU. Each keeps its disk between boots."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.install.network import FAR_ADDRESS, FAR_GATEWAY

BOOTED_WITHIN_S, TYPED_WITHIN_S = 600, 900
SLOW_START = "systemd.default_timeout_start_sec=300"  # an emulated processor on a busy machine needs minutes
CONTROL_MAC = "52:54:00:00:00:0a"  # setup/install-test.sh has it, too

HOME_FILES = {
    "20-ens11.network": "[Match]\nName=ens11\n[Network]\nDHCP=ipv4\n[DHCPv4]\nRouteMetric=100\n",
    "20-ens12.network": "[Match]\nName=ens12\n[Network]\nDHCP=ipv4\n[DHCPv4]\nRouteMetric=200\n",
}
FAR_FILES = {
    "20-ens11.network": f"[Match]\nName=ens11\n[Network]\nAddress={FAR_ADDRESS}/24\nGateway={FAR_GATEWAY}\n",
}


@dataclass
class Machine:
    """A machine. The first network device is ssh's, ens10; the others are ens11 and upward, one for each tap."""

    name: str
    taps: tuple[str, ...]
    port: int
    box: Path
    place: Path
    boots: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def disk(self) -> Path:
        return self.place / f"{self.name}.disk"

    def create_disk(self) -> None:
        subprocess.run(["cp", "--sparse=always", self.box, self.disk], check=True)

    def power_on(self) -> None:
        """Boot. The machine ends with this process, however that ends."""
        self.boots += 1
        control = f"user,id=control,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:{self.port}-:22"
        words = [
            *("setpriv", "--pdeathsig", "KILL", "nice", "-n", "5", "qemu-system-x86_64", "-name", self.name),
            *("-accel", "tcg,thread=multi", "-cpu", "Nehalem", "-smp", "2", "-m", "1G"),  # setup/vm.sh says why
            *("-nodefaults", "-no-user-config", "-display", "none"),
            *("-serial", f"file:{self.place / self.name}.{self.boots}.console"),
            *("-kernel", f"{self.box}.kernel", "-initrd", f"{self.box}.initrd"),
            *("-append", f"root=/dev/vda rw console=ttyS0 quiet mitigations=off panic=-1 {SLOW_START}"),
            *("-drive", f"file={self.disk},format=raw,if=virtio,cache=writeback"),
            *("-device", "virtio-rng-pci"),
            *("-netdev", control, "-device", f"virtio-net-pci,netdev=control,mac={CONTROL_MAC},addr=a"),
        ]
        for number, tap in enumerate(self.taps, 11):
            words += ["-netdev", f"tap,id={tap},ifname={tap},script=no,downscript=no"]
            mac = f"52:54:00:00:{len(self.name):02x}:{number:02x}"
            words += ["-device", f"virtio-net-pci,netdev={tap},mac={mac},addr={number:x}"]
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL)

    def power_off(self) -> None:
        """Cut the power."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def ssh(self, *command: str) -> list[str]:
        return [
            *("ssh", "-q", "-i", str(self.box.with_name("key")), "-p", str(self.port)),
            *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=60"),
            *("-o", f"ControlPath={self.place}/{self.name}.ssh.{self.boots}"),
            *("-o", "ServerAliveInterval=15", "root@127.0.0.1", *command),
        ]

    def run(self, command: str, given: str | None = None) -> str:
        done = subprocess.run(
            self.ssh(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            timeout=TYPED_WITHIN_S, check=False, input=given or "",
        )  # fmt: skip
        assert done.returncode == 0, f"{self.name}: {command}\n{done.stdout}"
        return str(done.stdout)

    def popen(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.ssh(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def await_booted(self) -> None:
        """Wait for ssh, and keep one connection for all later commands: a handshake takes an emulated machine seconds.

        QEMU accepts connections before the machine does.
        """
        deadline = time.monotonic() + BOOTED_WITHIN_S
        ssh, *words = self.ssh()
        while (
            subprocess.run([ssh, "-fNM", *words], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0
        ):
            assert time.monotonic() < deadline, f"{self.name} has no ssh within {BOOTED_WITHIN_S} s"
            time.sleep(0.5)

    def write(self, path: str, text: str) -> None:
        self.run(f"cat >{path}", text)

    def copy(self, *files: Path) -> None:
        for each in files:
            with each.open("rb") as content:
                subprocess.run(self.ssh(f"cat >{each.name}"), stdin=content, check=True)

    def reboot(self) -> None:
        """Restart the machine in order, and wait for ssh. A connection to the machine that goes down does not count."""
        boot = "cat /proc/sys/kernel/random/boot_id"
        before = self.run(boot)
        subprocess.run(self.ssh("systemctl reboot"), stdin=subprocess.DEVNULL, capture_output=True)
        while True:
            self.boots += 1
            self.await_booted()
            told = subprocess.run(self.ssh(boot), capture_output=True, text=True, stdin=subprocess.DEVNULL)
            if told.returncode == 0 and told.stdout != before:
                return


@contextmanager
def booted(box: Path, place: Path) -> Iterator[tuple[Machine, Machine]]:
    home = Machine("home", ("home-fibre", "home-lte", "home-lan"), 2201, box, place)
    far = Machine("far", ("far-public",), 2202, box, place)
    try:
        for each in (home, far):
            each.create_disk()
            each.power_on()
        for each, files in ((home, HOME_FILES), (far, FAR_FILES)):
            each.await_booted()
            for name, text in files.items():
                each.write(f"/etc/systemd/network/{name}", text)
            each.run(f"hostnamectl hostname {each.name}; networkctl reload")
            each.run(f"until [ $(ip -4 route show default | wc -l) = {len(files)} ]; do sleep 0.2; done")
        yield home, far
    finally:
        for each in (home, far):
            each.power_off()
