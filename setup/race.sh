#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Go's tests of the packages that have goroutines, watched for data races (-race), in a world of their own.
#
#   setup/race.sh [PACKAGE ...]
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

packages=("$@")
((${#packages[@]})) || packages=(
    ./relay/... ./mptcp/... ./internal/...
    ./agent/probing/... ./agent/{failover,host,intercept,mptcpctl,relayhost,session,tunnel}/
)
# The detector is C, and slow: what is promised within a time is tested without it.
export CGO_ENABLED=1
exec .venv/bin/python -m lab.stage.isolate setup/go.sh test -race -count=1 -skip '^TestTimed' "${packages[@]}"
