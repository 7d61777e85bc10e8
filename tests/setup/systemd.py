# SPDX-License-Identifier: Apache-2.0
"""A real systemd as process 1 of namespaces of its own, with units of this tree. It changes nothing outside them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.setup.place import TREE, run
from tests.system.evidence import until

PATIENCE_S = 60.0

# Writes inside stay in memory: the root's files are the lower layer of an overlay. /sys and /proc/sys are
# read-only, as systemd expects of a container, so that no unit changes the machine's settings. Mounts are shared, or
# units would not see their credentials: in a container systemd leaves that to its creator.
BOOT = """
mount --make-rprivate /
echo $$ >{group}/cgroup.procs
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir={root},upperdir=/mnt/upper,workdir=/mnt/work none /mnt/root
mkdir -p /mnt/root{place}
mount --rbind /dev /mnt/root/dev
mount --bind {place} /mnt/root{place}
{tree}
cd /mnt/root
pivot_root . mnt
exec unshare --cgroup bash -ec '
    mount -t proc none /proc
    umount -l /mnt
    mount --bind /proc/sys /proc/sys
    mount -o remount,bind,ro /proc/sys
    mount -t sysfs -o ro none /sys
    mount -t cgroup2 none /sys/fs/cgroup
    mount -t tmpfs -o mode=755 none /run
    ip link set lo up
    mount --make-rshared /
    {prepare}
    printf "[Unit]\\nDefaultDependencies=no\\n" >/etc/systemd/system/probe.target
    exec env container=lxc /lib/systemd/systemd --system --unit=probe.target --log-target=console --show-status=no
'
"""


class Systemd:
    def __init__(self, first: int) -> None:
        self._inside = ("nsenter", f"--target={first}", "--mount", "--pid", "--net")

    def ctl(self, *words: str) -> str:
        """Return what systemctl prints."""
        return self.run("systemctl", *words)

    def run(self, *words: str) -> str:
        """Run a command as root inside and return its output."""
        done = run([*self._inside, *words], os.environ)
        if done.returncode:
            raise AssertionError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr}")
        return done.stdout.strip()

    def popen(self, *words: str, **settings: Any) -> subprocess.Popen[str]:
        return subprocess.Popen([*self._inside, *words], **settings)

    def answers(self) -> bool:
        # While the roots change places, systemctl believes that it is in a chroot, does nothing and succeeds.
        said = run([*self._inside, "systemctl", "show", "--property=Version"], os.environ).stdout
        return said.startswith("Version=")

    def property(self, unit: str, name: str) -> str:
        return self.ctl("show", "--property", name, "--value", unit)

    def kill(self, unit: str, number: signal.Signals) -> None:
        self.ctl("kill", "--kill-whom=main", f"--signal={number.name}", unit)


@contextmanager
def booted(place: Path, prepare: str, root: Path | None = None) -> Iterator[Systemd]:
    """Yield a systemd that has started no unit yet. `prepare` runs before it and may write to /etc.

    The files are those of `root`, or else this machine's with the tree in /opt/bicast.
    """
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    group = (
        Path(next(fields[1] for fields in mounts if fields[2] == "cgroup2")) / f"bicast-test-{os.getpid()}-{place.name}"
    )
    group.mkdir()
    tree = f"mkdir -p /mnt/root/opt/bicast; mount --bind {TREE} /mnt/root/opt/bicast" if root is None else ""
    script = BOOT.format(group=group, root=root or "/", tree=tree, place=place, prepare=prepare)
    namespaces = ("--pid", "--mount", "--net", "--uts", "--ipc", "--fork", "--kill-child=KILL")
    command = ["unshare", *namespaces, "bash", "-ec", script]
    with (place / "systemd.log").open("w") as log:
        world = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            until(lambda: bool(_children(world.pid)), "there is a process 1", PATIENCE_S)
            systemd = Systemd(_children(world.pid)[0])
            until(systemd.answers, "systemd answers", PATIENCE_S)
            yield systemd
        finally:
            world.kill()
            world.wait()
            until(lambda: _removed(group), "its control groups are gone", PATIENCE_S)


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _removed(group: Path) -> bool:
    """Return whether the group and those in it could be removed: their last processes may still be ending."""
    try:
        for directory, _, _ in os.walk(group, topdown=False):
            Path(directory).rmdir()
    except OSError:
        return False
    return True
