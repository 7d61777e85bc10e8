#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes what both languages read of api/agent.proto. What it makes is committed, so that only who changes the contract
# needs the tools; all of them are pinned, in requirements-dev.txt and go.mod.
#
#   setup/proto.sh [DIRECTORY]     the directory that holds api/; this tree, when none is given
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

readonly out=${1:-.}
go_messages=$(setup/go.sh tool -n protoc-gen-go)
.venv/bin/python -m grpc_tools.protoc --proto_path=. \
    --python_out="$out" --pyi_out="$out" \
    --plugin=protoc-gen-go="$go_messages" --go_out="$out" --go_opt=module=bicast \
    api/agent.proto
