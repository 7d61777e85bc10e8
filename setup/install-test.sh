#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Types the shortest way of docs/how-to/install.md into two machines, a home and a rented one: Debian's own kernel and
# systemd, emulated by QEMU, with the packages that bicast depends on. Two routers with NAT, the Internet and a device
# are namespaces (tests/install). The first run makes the box. The packages of bicast are built again after a commit.
#
#   setup/install-test.sh [PYTEST'S ARGUMENT ...]
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
. setup/vm/box.sh

readonly cache=$PWD/.vm debs=$PWD/build/packages
readonly packages=(
    ca-certificates dbus dnsmasq-base ethtool iproute2 iputils-ping kmod libstdc++6 linux-image-amd64 nftables openssh-server
    openssl openvswitch-switch python3 systemd-sysv udev
)

# A machine of this kind takes its addresses from systemd-networkd. The device of ssh is in a bridge, because the only
# free Ethernet device of a home is its LAN.
with_networkd() {
    local root=$1 at=$1/etc/systemd/network
    install -d -m 700 "$root/root/.ssh"
    install -m 600 "$cache/key.pub" "$root/root/.ssh/authorized_keys"
    printf '[NetDev]\nName=control\nKind=bridge\n' >"$at/10-control.netdev"
    printf '[Match]\nName=control\n[Network]\nAddress=10.0.2.15/24\n' >"$at/10-control.network"
    printf '[Match]\nMACAddress=52:54:00:00:00:0a\n[Network]\nBridge=control\n' >"$at/11-control.network"
    chroot "$root" systemctl --quiet enable systemd-networkd.service
    # OpenSSH asks nobody for the name of its client.
    echo 'UseDNS no' >"$root/etc/ssh/sshd_config.d/test.conf"
    echo machine >"$root/etc/hostname"
    printf '127.0.0.1 localhost\n127.0.1.1 machine\n' >"$root/etc/hosts"
}

setup/packages.sh setup/packages/vagrant.txt setup/packages/vm.txt setup/packages/lab.txt
mkdir -p "$cache"
if [[ ! -e $cache/install ]]; then
    echo "install-test: making Debian's box"
    make_box "$cache/install" with_networkd "${packages[@]}"
fi
built=$(stat --format=%Y "$debs"/debian-12/bicast_*_amd64.deb 2>/dev/null || echo 0)
((built >= $(git log -1 --format=%ct))) || deploy/packages.sh debian-12
BICAST_INSTALL_BOX=$cache/install .venv/bin/python -m lab.stage.isolate \
    .venv/bin/python -m pytest -p no:xdist -p no:cacheprovider -s "$@" tests/install
