#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Boots the machines of the Vagrantfile without Vagrant's providers: Debian's own kernel and systemd, emulated by QEMU, as
# bare as Vagrant's box. Their provisioning scripts run as they are; then tests/vagrant types what docs/how-to/vagrant.md
# tells people to type. A Debian machine stands in for VyOS. The first run makes the box.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

readonly cache=$PWD/.vm
readonly packages=(
    ca-certificates dbus ifupdown iproute2 iputils-ping kmod linux-image-amd64 openssh-server rsync sudo systemd-sysv udev
)

# The box: an account that may do everything, and a way in by ssh, as all of Vagrant's boxes have.
make_box() {
    local root=$cache/box.$$ list
    trap 'rm -rf "$root"' RETURN
    list=$(IFS=,; echo "${packages[*]}")
    echo "vagrant-test: making Debian's box"
    debootstrap --variant=minbase --include="$list" bookworm "$root" http://deb.debian.org/debian >"$cache/box.log"
    # The machine trusts whom this one trusts: its way to the Internet may pass by somebody who signs with a key of his own.
    cp -a /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates"
    [[ ! -e /etc/pip.conf ]] || cp /etc/pip.conf "$root/etc"
    [[ -e $cache/key ]] || ssh-keygen -q -t ed25519 -N '' -f "$cache/key"
    chroot "$root" bash -euo pipefail <<'INSIDE'
update-ca-certificates >/dev/null 2>&1
apt-get update --quiet=2
groupadd --force vyattacfg
useradd --create-home --shell /bin/bash vagrant
echo 'vagrant ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/vagrant
printf 'auto lo eth0\niface lo inet loopback\niface eth0 inet static\n address 10.0.2.15/24\n gateway 10.0.2.2\n' >/etc/network/interfaces
echo 'nameserver 10.0.2.3' >/etc/resolv.conf
echo bicast >/etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 bicast\n' >/etc/hosts
install -d -o vagrant -g vagrant -m 700 /home/vagrant/.ssh
systemctl --quiet mask systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer
INSIDE
    install -o 1000 -g 1000 -m 600 "$cache/key.pub" "$root/home/vagrant/.ssh/authorized_keys"
    cp "$root"/boot/vmlinuz-* "$cache/box.kernel"
    cp "$root"/boot/initrd.img-* "$cache/box.initrd"
    mke2fs -q -t ext4 -d "$root" "$cache/box.new" 6G >/dev/null
    mv "$cache/box.new" "$cache/box"
}

setup/packages.sh setup/packages/vagrant.txt
mkdir -p "$cache"
[[ -e $cache/box ]] || make_box
BICAST_BOX=$cache/box .venv/bin/python -m pytest -p no:xdist -p no:cacheprovider "$@" tests/vagrant
