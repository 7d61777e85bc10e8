#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment from the distribution's own python3, which sees the system's packages because Mininet
# is one. A stamp in it holds what it was made from; while that is unchanged nothing is done.
#
#   setup/venv.sh DIRECTORY FILE.txt ...     files named constraints*.txt constrain, the others require
set -euo pipefail

readonly python=/usr/bin/python3

# The version of the given interpreter, like 3.11, or nothing where it does not run.
version_of() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true
}

# Whether the environment runs, with that version, and stands where it was made: it holds its own path.
usable() {
    [[ $(version_of "$1/bin/python") == "$2" ]] && grep -qsF "$(realpath "$1")/bin/python" "$1/bin/pip"
}

main() {
    local venv=$1 stamp=$1/made-from version wish file
    shift
    local -a arguments=()
    for file in "$@"; do
        case ${file##*/} in
        constraints*) arguments+=("--constraint=$file") ;;
        *) arguments+=("--requirement=$file") ;;
        esac
    done
    version=$(version_of "$python")
    wish=$(realpath -m "$venv"; echo "$version"; sha256sum -- "$@")

    if [[ -x $venv/bin/python && -f $stamp && $(<"$stamp") == "$wish" ]]; then
        return
    fi
    echo "setup: making $venv with Python $version from $*"
    usable "$venv" "$version" || "$python" -m venv --clear --system-site-packages "$venv"
    rm -f "$stamp"
    # nothing outside the tree, and what was made is kept: a cache would be for nobody
    "$venv/bin/python" -m pip install --no-cache-dir --quiet --disable-pip-version-check "${arguments[@]}"
    echo "$wish" >"$stamp"
}

(($# >= 2)) || { echo "usage: ${0##*/} DIRECTORY FILE.txt ..." >&2; exit 64; }
main "$@"
