#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Process 1 of the emulated machine: makes it a place to live in, runs one command, and says how it ended.
#
#   inside.sh TREE KERNEL EXIT_PORT COMMAND [ARGUMENT...]
set -uo pipefail
readonly tree=$1 kernel=$2 exit_port=$3
shift 3

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb
stty -F /dev/console -opost
mount -t tmpfs -o mode=0755 run /run
mkdir -p /dev/shm /dev/pts /usr/lib/modules
mount -t tmpfs shm /dev/shm
mount -t devpts devpts /dev/pts
mount -t cgroup2 cgroup /sys/fs/cgroup
ln -sfn /proc/self/fd /dev/fd
# Where the kernel looks for what it loads by itself.
mount --bind "$kernel/lib/modules" /usr/lib/modules
ip link set lo up
# Elsewhere Open vSwitch's service does this.
modprobe openvswitch

mkdir -p "$tree/results/vm"
mount -t 9p -o trans=virtio,version=9p2000.L results "$tree/results/vm"
# What crashes leaves its core.
echo "$tree/results/vm/core.%e.%p" >/proc/sys/kernel/core_pattern
ulimit -c unlimited

cd "$tree" || exit
# For tests: that they are here, and how many times longer than elsewhere things take.
export BICAST_VM=1 BICAST_SLOWNESS=10
"$@" </dev/null 2>&1 | cat # so that nobody takes the console for a terminal
code=${PIPESTATUS[0]}
((code < 128)) || echo "vm: the command was ended by signal $((code - 128))"
# isa-debug-exit: qemu ends at once with (code << 1) | 1.
printf '%b' "\\x$(printf '%x' $((code < 127 ? code : 127)))" | dd of=/dev/port bs=1 seek=$((exit_port)) status=none
