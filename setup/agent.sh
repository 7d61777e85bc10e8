#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds build/bicast-agent, one static binary, when its sources are newer than that; and fetches every module that
# the tests and the linters want, so that they need no network.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

readonly program=build/bicast-agent
setup/bpf.sh
newer=$(find agent api internal mptcp relay go.mod go.sum setup/agent.sh \
    \( -name '*.go' -o -name '*.bpf.o' -o -name 'go.*' -o -name '*.sh' \) \
    -newer "$program" -print -quit 2>/dev/null || echo all)
[[ -n $newer ]] || exit 0
echo "setup: building $program"
mkdir -p build
setup/go.sh mod download
version=$(setup/version.sh)
# Renamed when it is whole, so that nobody runs a half of it.
setup/go.sh build -ldflags="-s -X bicast/agent/host.Version=$version" -o "$program.$$" ./agent
mv "$program.$$" "$program"
