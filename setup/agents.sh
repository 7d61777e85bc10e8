#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the agent for every kind of machine that it is for, to build/bicast-agent-linux-NAME: static programs with no
# library and no interpreter, which run on Android's kernel as they are.
#
#   setup/agents.sh [NAME ...]     amd64 arm64 armv7; all of them, when none is given
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

declare -rA machines=([amd64]=GOARCH=amd64 [arm64]=GOARCH=arm64 [armv7]="GOARCH=arm GOARM=7")
(($#)) || set -- amd64 arm64 armv7
setup/bpf.sh
version=$(setup/version.sh)
mkdir -p build
for name in "$@"; do
    [[ -n ${machines[$name]-} ]] || { echo "agents.sh: there is no $name, but: ${!machines[*]}" >&2; exit 64; }
    program=build/bicast-agent-linux-$name
    read -ra settings <<<"${machines[$name]}"
    env GOOS=linux "${settings[@]}" setup/go.sh build -ldflags="-s -X bicast/agent/host.Version=$version" \
        -o "$program.$$" ./agent
    mv "$program.$$" "$program"
    echo "$program"
done
