#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages of this tree: bicast-agent in build/packages for each kind of machine, and bicast for
# amd64 and arm64 with bicast-lab for amd64 in a directory of each distribution, because each has another Python. The
# same commit gives the same bytes.
#
#   deploy/packages.sh [DISTRIBUTION ...]      only for these, and for amd64 alone
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

declare -rA pythons=([debian-12]=3.11 [debian-13]=3.13 [ubuntu-24.04]=3.12)
readonly tree=$PWD out=$PWD/build/packages
setup/packages.sh setup/packages/build.txt
version=$(setup/version.sh)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH DEB_BUILD_OPTIONS=nocheck
rm -rf "$out"
mkdir -p "$out"

# package NAME ARCHITECTURE DIRECTORY: builds it there
package() {
    local name=$1 architecture=$2 place=$3 source=$3/source profile=agent
    [[ $name == bicast-agent ]] || profile=controller
    echo "packages: building $name $version for ${place#"$out"/} ($architecture)"
    mkdir -p "$source"
    git ls-files -z | xargs -0 cp --parents --no-dereference -t "$source"
    mv "$source/deploy/debian" "$source/debian"
    ln -s "$tree/.go" "$tree/.venv" "$source"
    install -D "$tree/build/bicast-agent" "$source/build/bicast-agent" # its help becomes the manual
    echo "$version" >"$source/controller/version.txt"
    printf 'bicast (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' "$version" \
        'The bicast maintainers <maintainers@bicast.invalid>' "$(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")" \
        >"$source/debian/changelog"
    (cd "$source" && dpkg-buildpackage --build=binary --host-arch="$architecture" --build-profiles=$profile \
        --no-check-builddeps --no-sign >"$place/log" 2>&1) || {
        tail --lines=20 "$place/log" >&2
        echo "packages: dpkg-buildpackage failed; all that it printed is in $place/log" >&2
        exit 1
    }
    rm -r "$source" "$place"/*.{buildinfo,changes} "$place/log"
}

architectures=(amd64)
(($#)) || {
    architectures+=(arm64)
    package bicast-agent armhf "$out"
    set -- "${!pythons[@]}"
}
for architecture in "${architectures[@]}"; do
    package bicast-agent "$architecture" "$out"
    for distribution; do
        BICAST_PYTHON=${pythons[$distribution]} package bicast "$architecture" "$out/$distribution"
    done
done
(cd "$out" && find . -name '*.deb' -printf '%P\n' | sort | xargs sha256sum --)
