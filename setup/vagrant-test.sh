#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Boots the machines of the Vagrantfile without Vagrant's providers: Debian's own kernel and systemd, emulated by QEMU, as
# bare as Vagrant's box. Their provisioning scripts run as they are; then tests/vagrant types what docs/how-to/vagrant.md
# tells people to type. A Debian machine stands in for VyOS. The first run makes the box.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
. setup/vm/box.sh

readonly cache=$PWD/.vm
readonly packages=(
    ca-certificates dbus ifupdown iproute2 iputils-ping kmod linux-image-amd64 openssh-server rsync sudo systemd-sysv udev
)

# An account that may do everything, and a way in by ssh, as all of Vagrant's boxes have.
as_vagrants() {
    local root=$1
    chroot "$root" bash -euo pipefail <<'INSIDE'
apt-get update --quiet=2
groupadd --force vyattacfg
useradd --create-home --shell /bin/bash vagrant
echo 'vagrant ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/vagrant
printf 'auto lo eth0\niface lo inet loopback\niface eth0 inet static\n address 10.0.2.15/24\n gateway 10.0.2.2\n' >/etc/network/interfaces
echo 'nameserver 10.0.2.3' >/etc/resolv.conf
echo bicast >/etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 bicast\n' >/etc/hosts
install -d -o vagrant -g vagrant -m 700 /home/vagrant/.ssh
INSIDE
    install -o 1000 -g 1000 -m 600 "$cache/key.pub" "$root/home/vagrant/.ssh/authorized_keys"
}

setup/packages.sh setup/packages/vagrant.txt
mkdir -p "$cache"
if [[ ! -e $cache/box ]]; then
    echo "vagrant-test: making Debian's box"
    make_box "$cache/box" as_vagrants "${packages[@]}"
fi
BICAST_BOX=$cache/box .venv/bin/python -m pytest -p no:xdist -p no:cacheprovider "$@" tests/vagrant
