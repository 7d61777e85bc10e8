#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the version of this tree: 1.2.0 at the tag v1.2.0, 1.2.0+5.g0a1b2c3 five commits after it, 0.0.0+N.g0a1b2c3
# before the first tag; ".dirty" at its end if a file differs from the commit. dpkg sorts these as they were made.
#
#   setup/version.sh FILE       writes it to FILE instead, if FILE holds another one
set -euo pipefail

described() {
    local tag
    cd "$(dirname "$(readlink -f "$0")")/.."
    if tag=$(git describe --tags --match='v[0-9]*' --dirty=.dirty 2>/dev/null); then
        sed -E 's/^v//; s/-([0-9]+)-(g[0-9a-f]+)/+\1.\2/; s/^([^+]*)\.dirty$/\1+dirty/' <<<"$tag"
    elif tag=$(git describe --always --dirty=.dirty 2>/dev/null); then
        echo "0.0.0+$(git rev-list --count HEAD).g$tag"
    else
        echo 0.0.0+unreleased
    fi
}

version=$(described)
if (($# == 0)); then
    echo "$version"
elif [[ ! -f $1 || $(<"$1") != "$version" ]]; then
    echo "$version" >"$1"
fi
