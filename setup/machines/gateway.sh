#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The gateway: its ports named as gateway.yaml names them, the bridge made of them, and the controller as a service.
# This tree is where the service runs from.
#
#   gateway.sh GATEWAY.yaml ADDRESS-FOR-AGENTS/PREFIX MAC,PORT ...
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
. ./common.sh
tree=$(readlink -f ../..)

../packages.sh ../packages/gateway.txt
(cd "$tree" && setup/venv.sh .venv requirements.txt constraints.txt)
file=/run/bicast-gateway.yaml
at=${2%/*}
printf 'controller: {agents: {listen: "%s:8655", join: "%s:8656"}}\n' "$at" "$at" | cat - "$tree/$1" >"$file"
shift 2
for port in "$@"; do
    IFS=, read -r mac wish <<<"$port"
    # For the next boot, and at once.
    printf '[Match]\nMACAddress=%s\n[Link]\nName=%s\n' "$mac" "$wish" >"/etc/systemd/network/10-$wish.link"
    name=$(interface_of "$mac")
    if [[ $name != "$wish" ]]; then
        ip link set "$name" down
        ip link set "$name" name "$wish"
    fi
    ip link set "$wish" up
done
"$tree/bicast" bridge "$file"

"$tree/deploy/install.sh" "$file"
