#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# To be sourced: makes a Debian machine's disk, with its own kernel and systemd and a way in by ssh.

# make_box BOX CUSTOMIZE PACKAGE ...: makes the disk BOX, its kernel and initrd beside it, and the key of all boxes.
# CUSTOMIZE is a function that changes the root, whose path it gets.
make_box() {
    local box=$1 customize=$2 list keys=${1%/*} root
    shift 2
    root=$box.$$
    # shellcheck disable=SC2064  # of this box; it is local
    trap "rm -rf '$root'" RETURN
    list=$(
        IFS=,
        echo "$*"
    )
    debootstrap --variant=minbase --include="$list" bookworm "$root" http://deb.debian.org/debian >"$box.log"
    # The machine trusts the same certificates as this one: a proxy on the way to the Internet may sign with its own.
    cp -a /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates"
    [[ ! -e /etc/pip.conf ]] || cp /etc/pip.conf "$root/etc"
    [[ -e $keys/key ]] || ssh-keygen -q -t ed25519 -N '' -f "$keys/key"
    chroot "$root" bash -euo pipefail <<'INSIDE'
update-ca-certificates >/dev/null 2>&1
systemctl --quiet mask systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer
INSIDE
    "$customize" "$root"
    cp "$root"/boot/vmlinuz-* "$box.kernel"
    cp "$root"/boot/initrd.img-* "$box.initrd"
    mke2fs -q -t ext4 -d "$root" "$box.new" 6G >/dev/null
    mv "$box.new" "$box"
}
