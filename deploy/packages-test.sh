#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the packages of build/packages (tests/packages) in clean roots of their distributions, which debootstrap makes
# once; the packages for arm64 in one root whose programs QEMU runs. Upgrades begin with the packages of the tag before
# this commit; before the first tag, with those of the commit before. They are built once.
#
#   deploy/packages-test.sh [DISTRIBUTION ...]      all, if none is named
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

declare -rA suites=([debian-12]=bookworm [debian-13]=trixie [ubuntu-24.04]=noble)
declare -rA archives=(
    [debian-12]=http://deb.debian.org/debian
    [debian-13]=http://deb.debian.org/debian
    [ubuntu-24.04]=http://archive.ubuntu.com/ubuntu
)

fail() {
    echo "packages-test: $*" >&2
    exit 1
}

# The root with what the packages depend on and recommend. No daemon may start while apt installs it.
prepare() {
    local distribution=$1 architecture=$2 root=$PWD/build/roots/$1-$2 wanted
    local suite=${suites[$1]} script=/usr/share/debootstrap/scripts
    local -a packages=(build/packages/bicast-agent_*_"$2".deb "build/packages/$1"/*_"$2".deb)
    [[ -e ${packages[0]} && -e ${packages[1]} ]] || fail "there are no packages of $1 for $2: make packages"
    wanted=$({
        echo systemd
        for each in "${packages[@]}"; do dpkg-deb --field "$each" Depends Recommends; done
    } | tr ',' '\n' | sed -E 's/^[A-Z][a-z]*://; s/\|.*//; s/\(.*//; s/ //g' | grep -v '^bicast' | sort -u)
    [[ $(cat "$root/made-of" 2>/dev/null) != "$wanted" ]] || return 0
    echo "packages-test: making a root of $distribution ($architecture) in $root"
    rm -rf "$root"
    mkdir -p "$root"
    script+=/$suite
    [[ -e $script ]] || script=${script%/*}/gutsy # of every Ubuntu
    debootstrap --arch="$architecture" --variant=minbase --components=main,universe "$suite" "$root" \
        "${archives[$distribution]}" "$script" >"$root.log" 2>&1 || fail "debootstrap failed: see $root.log"
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    # shellcheck disable=SC2086  # a list of names
    DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install --yes --quiet=2 --no-install-recommends $wanted \
        >>"$root.log" 2>&1 || fail "apt-get failed: see $root.log"
    rm "$root/usr/sbin/policy-rc.d"
    echo "$wanted" >"$root/made-of"
}

build_previous() {
    local commit=$1 tree
    tree=$(mktemp -d)
    # shellcheck disable=SC2064  # of this tree; it is local
    trap "git worktree remove --force '$tree'" EXIT
    git worktree add --quiet --detach "$tree" "$commit"
    ln -s "$PWD/.venv" "$PWD/.go" "$tree"
    mkdir "$tree/build"
    cp build/bicast-agent build/link-emulator "$tree/build"
    "$tree/deploy/packages.sh" "${@:2}"
    rm -rf "$BICAST_PREVIOUS"
    mkdir -p "${BICAST_PREVIOUS%/*}"
    mv "$tree/build/packages" "$BICAST_PREVIOUS"
}

setup/packages.sh setup/packages/build.txt
(($#)) || {
    prepare debian-13 arm64
    set -- "${!suites[@]}"
}
for distribution; do
    prepare "$distribution" amd64
done
commit=$(git rev-parse --short "$(git describe --tags --abbrev=0 HEAD^ 2>/dev/null || echo HEAD^)^{commit}")
export BICAST_PREVIOUS=$PWD/build/previous/$commit
for distribution; do
    [[ -d $BICAST_PREVIOUS/$distribution ]] || (build_previous "$commit" "$@")
done
chosen=$(printf ' or %s' "$@")
exec .venv/bin/python -m lab.stage.isolate .venv/bin/python -m pytest tests/packages -rP -k "${chosen# or }"
