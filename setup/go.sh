#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Go, as this machine has it when it is new enough for go.mod, else the one below, fetched to .go/ and checked: of the
# distributions that we know none but the newest has such a Go. Modules and what is built stay in .go/ too.
#
#   setup/go.sh ARGUMENT...     what `go ARGUMENT...` would do, in the caller's directory
set -euo pipefail

tree=$(dirname "$(dirname "$(readlink -f "$0")")")
readonly tree
readonly version=1.26.8
declare -rA sums=(
    [x86_64]=30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7
    [aarch64]=02b36b6787b3ac767668f630e2998df45a3b1f9ffee08d1bf3ef6487cd658d99
)
declare -rA names=([x86_64]=amd64 [aarch64]=arm64)
# Never another one than the one that we chose; and nothing outside the tree, nothing that `rm` stumbles over. The agent and
# the tests are built alike, so that what they share is compiled once.
export GOTOOLCHAIN=local GOFLAGS="${GOFLAGS-} -modcacherw -trimpath" CGO_ENABLED=${CGO_ENABLED:-0}
export GOMODCACHE=$tree/.go/modules GOCACHE=$tree/.go/built STATICCHECK_CACHE=$tree/.go/staticcheck
# The go command counts its uses where settings are, and GOTELEMETRY is no variable that it obeys; people's own settings hold.
export GOENV=${GOENV:-${XDG_CONFIG_HOME:-${HOME-}/.config}/go/env}
export XDG_CONFIG_HOME=$tree/.go/config

# Whether a program is a Go that go.mod accepts.
suits() {
    local wanted have
    wanted=$(sed -n 's/^go //p' "$tree/go.mod")
    have=$("$1" env GOVERSION 2>/dev/null) || return 1
    [[ $(printf '%s\n' "$wanted" "${have#go}" | sort --version-sort | head -n1) == "$wanted" ]]
}

fetch() {
    local machine name room
    machine=$(uname -m)
    [[ -n ${sums[$machine]-} ]] || {
        echo "go.sh: put a Go that go.mod accepts into PATH: we know none for $machine" >&2
        return 1
    }
    name=golang.org/toolchain@v0.0.1-go$version.linux-${names[$machine]}
    echo "setup: fetching Go $version" >&2
    room=$(mktemp --directory "$tree/.go/new.XXXXXX")
    curl --fail --silent --show-error --location --output "$room/go.zip" "https://proxy.golang.org/${name/@//@v/}.zip"
    sha256sum --check --status <<<"${sums[$machine]}  $room/go.zip" || {
        echo "go.sh: what proxy.golang.org gave for $name is not what we know by its SHA-256: nothing was taken" >&2
        rm -r "$room"
        return 1
    }
    /usr/bin/python3 -m zipfile --extract "$room/go.zip" "$room"
    chmod +x "$room/$name"/bin/* "$room/$name"/pkg/tool/*/*
    mv --no-target-directory "$room/$name" "$tree/.go/$version"
    rm -r "$room"
}

for go in go /usr/local/go/bin/go "$tree/.go/$version/bin/go"; do
    if suits "$go"; then
        exec "$go" "$@"
    fi
done
mkdir -p "$tree/.go"
exec {lock}<"$tree/.go"
flock "$lock"
suits "$tree/.go/$version/bin/go" || fetch
exec {lock}<&-
exec "$tree/.go/$version/bin/go" "$@"
