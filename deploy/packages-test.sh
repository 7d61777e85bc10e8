#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of build/packages in clean roots of their distributions, raises a bridge with them, runs the
# controller on it, upgrades, removes and purges them. Each root is made once, by debootstrap; a run works on an overlay
# of it, in namespaces of its own.
#
#   deploy/packages-test.sh [DISTRIBUTION ...]     debian-12 debian-13 ubuntu-24.04; all of them, when none is given
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

declare -rA suites=([debian-12]=bookworm [debian-13]=trixie [ubuntu-24.04]=noble)
declare -rA archives=(
    [debian-12]=http://deb.debian.org/debian
    [debian-13]=http://deb.debian.org/debian
    [ubuntu-24.04]=http://archive.ubuntu.com/ubuntu
)
readonly packages=$PWD/build/packages ours=(bicast bicast-agent)

fail() {
    echo "packages-test: $*" >&2
    exit 1
}

step() {
    echo "packages-test: $*"
}

within() {
    chroot "$merged" "$@"
}

# The file of a package for a distribution.
built() {
    local found=("$packages"/{,"$2"/}"$1"_*_"$(dpkg --print-architecture)".deb) each
    for each in "${found[@]}"; do
        [[ ! -e $each ]] || { echo "$each"; return; }
    done
    fail "there is no package $1 for $2 in $packages: make packages"
}

# The root with what the packages depend on. No daemon may start while apt installs it.
prepare() {
    local distribution=$1 root=$2 wanted suite=${suites[$1]} script=/usr/share/debootstrap/scripts
    wanted=$(for each in "${ours[@]}"; do dpkg-deb -f "$(built "$each" "$distribution")" Depends; done | tr ',' '\n' \
        | sed -E 's/\|.*//; s/\(.*//; s/ //g' | grep -v '^bicast' | sort -u)
    [[ $(cat "$root/made-of" 2>/dev/null) != "$wanted" ]] || return 0
    step "making a root of $distribution in $root"
    rm -rf "$root"
    mkdir -p "$root"
    script+=/$suite
    [[ -e $script ]] || script=${script%/*}/gutsy # of every Ubuntu
    debootstrap --variant=minbase --components=main,universe "$suite" "$root" "${archives[$distribution]}" "$script" \
        >"$root.log" 2>&1 || fail "see $root.log"
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    # shellcheck disable=SC2086  # a list of names
    DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install --yes --quiet=2 --no-install-recommends $wanted \
        >>"$root.log" 2>&1 || fail "see $root.log"
    echo "$wanted" >"$root/made-of"
}

files() {
    (cd "$merged" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp \) -prune -o -print) \
        | grep -vE '^\./(var/(lib/(dpkg|systemd)|log|cache)|(var/lib|etc)/openvswitch)/' | sort
}

gateway() {
    cat <<'YAML'
sites:
  home:
    dpid: "0000000000000001"
    bridge: br-home
    datapath: netdev
    uplinks:
      wifi: {port: wifi, addresses: [192.168.100.2/24], next_hops: [{address: 192.168.100.1}]}
      lte: {port: lte, addresses: [192.168.200.2/24], next_hops: [{address: 192.168.200.1}]}
    subnets:
      home: {gateways: [192.168.110.1/24]}
    terminals:
      phone: {addresses: [{address: 192.168.110.3, port: lan}]}
YAML
}

run() {
    local distribution=$1 root=$2 place agent controller
    place=$(mktemp -d)
    mount -t tmpfs none "$place"
    mkdir "$place"/{upper,work,merged}
    merged=$place/merged
    mount -t overlay overlay -o "lowerdir=$root,upperdir=$place/upper,workdir=$place/work" "$merged"
    mount -t proc proc "$merged/proc"
    mount --rbind /dev "$merged/dev"
    mount -t tmpfs none "$merged/run"
    agent=$(built bicast-agent "$distribution") controller=$(built bicast "$distribution")
    cp "$agent" "$controller" "$merged/tmp"
    files >"$place/before"

    step "installing"
    within dpkg --install "/tmp/${agent##*/}" "/tmp/${controller##*/}" >"$place/log" 2>&1 || { cat "$place/log"; fail "dpkg failed"; }
    version=$(dpkg-deb -f "$controller" Version)
    [[ $(within bicast --version) == "$version" ]] || fail "bicast --version is not $version"
    [[ $(within bicast-agent --version) == "$version" ]] || fail "bicast-agent --version is not $version"
    within getent group bicast >/dev/null || fail "there is no group bicast"
    within systemd-analyze verify --man=no bicast.service bicast-bridge.service bicast-agent@gateway.service \
        bicast-agent@relay.service bicast-agent@terminal.service || fail "systemd does not take the units"
    for each in gcc cc clang go ruff mypy pytest; do
        ! within sh -c "command -v $each" >/dev/null || fail "$each is there"
    done

    step "running the controller on a bridge"
    ip link set lo up
    for each in wifi lte lan; do
        ip link add "$each" up type veth peer name "$each-peer"
        ip link set "$each-peer" up
    done
    within mkdir -p /etc/bicast /run/openvswitch
    gateway >"$merged/etc/bicast/gateway.yaml"
    within /usr/share/openvswitch/scripts/ovs-ctl start --system-id=random >>"$place/log" 2>&1 || { cat "$place/log"; fail "no Open vSwitch"; }
    within bicast check /etc/bicast/gateway.yaml
    within bicast bridge /etc/bicast/gateway.yaml >>"$place/log" 2>&1 || { cat "$place/log"; fail "bicast bridge failed"; }
    chroot "$merged" bicast run /etc/bicast/gateway.yaml >"$place/controller" 2>&1 &
    for _ in {1..300}; do
        within bicast status >"$place/status" 2>/dev/null && grep -q 'steady' "$place/status" && break
        kill -0 $! || { cat "$place/controller"; fail "the controller ended"; }
        sleep 0.2
    done
    cat "$place/status"
    grep -q 'steady' "$place/status" || { cat "$place/controller"; fail "the gateway did not become steady"; }
    awk '/^VmRSS/ { printf "packages-test: the controller has %d MB resident\n", $2 / 1024 }' /proc/$!/status
    kill $!
    wait $! || true
    within /usr/share/openvswitch/scripts/ovs-ctl stop >>"$place/log" 2>&1

    step "upgrading to itself, removing and purging"
    within dpkg --install "/tmp/${agent##*/}" "/tmp/${controller##*/}" >>"$place/log" 2>&1
    [[ -e $merged/etc/bicast/gateway.yaml ]] || fail "the upgrade removed gateway.yaml"
    within dpkg --remove "${ours[@]}" >>"$place/log" 2>&1
    [[ -e $merged/etc/bicast/gateway.yaml ]] || fail "the removal took gateway.yaml"
    within dpkg --purge "${ours[@]}" >>"$place/log" 2>&1
    files >"$place/after"
    diff "$place/before" "$place/after" >"$place/left" || { cat "$place/left"; fail "these files are left or gone"; }
    dpkg-deb -f "$controller" Installed-Size | awk '{ printf "packages-test: bicast is %d MB installed\n", $1 / 1024 }'
    dpkg-deb -f "$agent" Installed-Size | awk '{ printf "packages-test: bicast-agent is %d MB installed\n", $1 / 1024 }'
    step "$version holds in $distribution"
}

if [[ ${1-} == inside ]]; then
    run "$2" "$3"
    exit
fi
setup/packages.sh setup/packages/build.txt
(($#)) || set -- "${!suites[@]}"
for distribution in "$@"; do
    root=$PWD/build/roots/${suites[$distribution]}
    prepare "$distribution" "$root"
    .venv/bin/python -m lab.stage.isolate "$0" inside "$distribution" "$root"
done
