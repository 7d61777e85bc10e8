#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages of this tree, in build/packages: bicast for this machine's kind and its Python, and
# bicast-agent for each kind of machine. The same commit gives the same bytes.
#
#   deploy/packages.sh [ARCHITECTURE ...]     amd64 arm64 armhf; all of them, when none is given
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

(($#)) || set -- amd64 arm64 armhf
readonly tree=$PWD out=$PWD/build/packages tools=(debhelper dh-python dpkg-dev fakeroot help2man)
missing=()
for name in "${tools[@]}"; do
    dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed || missing+=("$name")
done
if ((${#missing[@]})); then
    echo "packages: these build packages and are not installed: apt-get install ${missing[*]}" >&2
    exit 69
fi
version=$(setup/version.sh)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH DEB_BUILD_OPTIONS=nocheck
mkdir -p "$out"
for architecture in "$@"; do
    echo "packages: building $version for $architecture"
    source=$out/source-$architecture
    rm -rf "$source"
    mkdir "$source"
    git ls-files -z | xargs -0 cp --parents --no-dereference -t "$source"
    mv "$source/deploy/debian" "$source/debian"
    ln -s "$tree/.go" "$tree/.venv" "$source"
    install -D "$tree/build/bicast-agent" "$source/build/bicast-agent" # its help becomes the manual
    echo "$version" >"$source/controller/version.txt"
    printf 'bicast (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' "$version" \
        'The bicast maintainers <maintainers@bicast.invalid>' "$(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")" \
        >"$source/debian/changelog"
    profiles=()
    [[ $architecture == "$(dpkg --print-architecture)" ]] || profiles=(--build-profiles=agent)
    (cd "$source" && dpkg-buildpackage --build=binary --host-arch="$architecture" "${profiles[@]}" \
        --no-check-builddeps --unsigned-changes --no-sign >"$out/$architecture.log" 2>&1) || {
        tail --lines=20 "$out/$architecture.log" >&2
        echo "packages: dpkg-buildpackage failed for $architecture; all that it printed is in $out/$architecture.log" >&2
        exit 1
    }
    rm -r "$source"
done
(cd "$out" && sha256sum -- *_"$version"_*.deb)
