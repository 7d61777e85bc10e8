#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What vet and staticcheck say of the Go code. `go test` vets it too; staticcheck takes two minutes where it is not built yet.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

echo "check: go vet"
setup/go.sh vet ./...
echo "check: staticcheck"
setup/go.sh tool staticcheck ./...
