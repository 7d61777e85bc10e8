#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The emulated machine's first steps: the host's files, with a layer in memory over them.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
while read -r module; do
    insmod "/modules/$module"
done </order
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro host /below
mount -t tmpfs above /above
mkdir /above/upper /above/work
mount -t overlay -o lowerdir=/below,upperdir=/above/upper,workdir=/above/work root /root
for place in proc sys dev; do
    mount --move "/$place" "/root/$place"
done
eval "set -- $(cat /command)"
exec switch_root /root "$@"
