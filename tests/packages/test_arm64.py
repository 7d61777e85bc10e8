# SPDX-License-Identifier: Apache-2.0
"""The packages for arm64 work in a root of arm64, whose programs QEMU runs. systemd does not start there."""

from __future__ import annotations

import subprocess

from tests.packages.gateway import FILE, GATEWAY
from tests.packages.release import Release
from tests.setup.place import TREE

DISTRIBUTION = "debian-13"
# Writes stay in memory: the root is the lower layer of an overlay.
ENTER = """
mount --make-rprivate /
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir={root},upperdir=/mnt/upper,workdir=/mnt/work none /mnt/root
mount -t proc none /mnt/root/proc
mount --rbind /dev /mnt/root/dev
mount -t tmpfs none /mnt/root/run
ip link set lo up
cp {packages} /mnt/root/tmp
mkdir /mnt/root/etc/bicast
cat >/mnt/root{file}
exec chroot /mnt/root sh -ec '
    export DEBIAN_FRONTEND=noninteractive
    dpkg --install /tmp/*.deb
    uname --machine
    bicast --version
    bicast-agent --version
    bicast check {file}
    mkdir -p /var/lib/bicast /run/bicast-controller
    bicast run {file} &
    until bicast status; do kill -0 $!; done
    $(bicast enroll home --role gateway | sed -n "s/^ *bicast-agent join/bicast-agent join/p")
'
"""


def test_controller_and_agent_of_arm64_start_and_join() -> None:
    release = Release(TREE / "build/packages", DISTRIBUTION, "arm64")
    packages = " ".join(str(release.file(name)) for name in ("bicast-agent", "bicast"))
    script = ENTER.format(root=TREE / f"build/roots/{DISTRIBUTION}-arm64", packages=packages, file=FILE)
    namespaces = ("--mount", "--pid", "--net", "--fork", "--kill-child=KILL")
    words = ["unshare", *namespaces, "bash", "-ec", script]
    done = subprocess.run(words, input=GATEWAY, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    version = release.field("bicast", "Version")
    assert f"aarch64\n{version}\n{version}\n" in done.stdout
    assert "home" in done.stdout
