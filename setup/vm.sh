#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command on Debian's own kernel, which has what the kernel of a container or a small machine may lack: Open
# vSwitch's datapath and netem. The kernel boots in an emulated machine (no KVM is asked for) and sees this machine's
# files, this tree among them; what is written there stays in that machine's memory and is gone when it ends. Only what
# is written to results/vm stays: each run keeps the logs of failed tests and the cores of crashed processes there, in a
# directory of its own.
#
#   setup/vm.sh                         the tests that want such a kernel; ends with pytest's summary
#   setup/vm.sh COMMAND [ARGUMENT...]   another command, in the tree
#
# The exit code is the command's. The emulated machine has no network and ends with this script, however that ends.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

readonly cache=$PWD/.vm
readonly package=linux-image-amd64
# For the first steps; the rest is loaded when it is needed.
readonly first_modules=(virtio_pci 9pnet_virtio 9p overlay)
readonly exit_port=0x501
# A processor without AVX. qemu 7.2 emulates AVX2's gathers wrongly: numpy, which sorts with them, returned unsorted
# arrays in three threads of three, or crashed. On this processor 32,432 arrays were sorted right.
readonly cpu=Nehalem
results=$PWD/results/vm/$(date --utc +%Y-%m-%dT%H-%M-%SZ).$$
readonly results

fail() {
    echo "vm: $*" >&2
    exit 1
}

# The package that is the newest kernel, as far as apt's lists know.
newest() {
    apt-cache depends --important "$package" 2>/dev/null | sed -n 's/^ *Depends: //p' | head -n1
}

download() {
    local name
    name=$(newest)
    [[ -n $name ]] && apt-get download --quiet=2 -o APT::Sandbox::User=root "$name"
}

# The package is unpacked here, and not installed: this machine does not boot another kernel because of us.
fetch_kernel() {
    [[ -e $cache/kernel ]] && return
    echo "vm: fetching Debian's kernel"
    rm -rf "$cache/new"
    mkdir -p "$cache/new/package"
    cd "$cache/new/package"
    if ! download; then
        apt-get update --quiet=2
        download || fail "apt cannot fetch $package: expected a Debian with its archive in /etc/apt"
    fi
    cd "$OLDPWD"
    dpkg-deb --extract "$cache/new/package"/*.deb "$cache/new"
    rm -r "$cache/new/package"
    depmod --basedir "$cache/new" "$(kernel_version "$cache/new")"
    mv "$cache/new" "$cache/kernel"
}

kernel_version() {
    local file
    file=$(echo "$1"/boot/vmlinuz-*)
    echo "${file#*/boot/vmlinuz-}"
}

# What the kernel starts with: busybox, the modules that reach our files, and what is to be done then.
make_initramfs() {
    local room=$1 verb file
    mkdir -p "$room"/{bin,modules,proc,sys,dev,below,above,root}
    cp /bin/busybox "$room/bin/busybox"
    cp setup/vm/init.sh "$room/init"
    modprobe --dirname "$cache/kernel" --set-version "$version" --show-depends --all "${first_modules[@]}" |
        while read -r verb file _; do
            [[ $verb == insmod ]] || continue
            case $file in
            *.xz) xz --decompress --stdout "$file" >"$room/modules/$(basename "$file" .xz)" ;;
            *) cp "$file" "$room/modules" ;;
            esac
            file=$(basename "$file" .xz)
            grep -qxF "$file" "$room/order" 2>/dev/null || echo "$file" >>"$room/order"
        done
    printf '%s\n' "$PWD" >"$room/tree"
    printf '%q ' "$PWD/setup/vm/inside.sh" "$PWD" "$cache/kernel" "$exit_port" "${@:2}" >"$room/command"
    (cd "$room" && find . | cpio --create --format=newc --quiet)
}

[[ $(uname -m) == x86_64 ]] || fail "the emulated machine is an x86_64, and this one is $(uname -m)"
exec {lock}<setup/vm
flock "$lock"
setup/packages.sh setup/packages/vm.txt
fetch_kernel
version=$(kernel_version "$cache/kernel")
flock --unlock "$lock"

(($#)) || set -- .venv/bin/python -m lab.stage.isolate .venv/bin/python -m pytest -p no:cacheprovider tests/vm tests/stage/test_links.py
for left in "$cache"/run.*; do # by one that was killed
    [[ -e /proc/${left##*.} ]] || rm -rf "$left"
done
room=$cache/run.$$
mkdir "$room"
trap 'rm -rf "$room"; rmdir --ignore-fail-on-non-empty "$results"' EXIT
make_initramfs "$room/root" "$@" >"$room/initramfs"
mkdir -p "$results"

echo "vm: booting Linux $version"
machine=(
    qemu-system-x86_64 -accel "tcg,thread=multi" -cpu "$cpu" -smp 2 -m 3G -nodefaults -no-user-config -no-reboot
    -display none -serial stdio -nic none
    -device "isa-debug-exit,iobase=$exit_port,iosize=1"
    -kernel "$cache/kernel/boot/vmlinuz-$version" -initrd "$room/initramfs"
    -append "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic mitigations=off"
    -virtfs "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"
    -virtfs "local,path=$results,mount_tag=results,security_model=none"
)
# A machine that ends without having said how (a panic, a reset) ends with 0; what was said is odd.
code=0
setpriv --pdeathsig KILL nice -n 10 "${machine[@]}" </dev/null || code=$?
((code % 2)) || fail "the machine ended without an exit code (qemu's: $code); what it last said is above"
exit $((code >> 1))
