#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The client: an address on each side of the gateway, a way back by the side a packet is from, an MPTCP subflow for each.
# The first address is the one that connections begin with; the later ones are backup, as the paper has it.
#
#   client.sh NETWORK-OF-THE-SERVER MAC,ADDRESS/PREFIX,GATEWAY ...
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
. ./common.sh

../packages.sh ../packages/endpoint.txt
server_network=$1
shift
ip mptcp endpoint flush
speak_mptcp
table=100
flags=(subflow)
for port in "$@"; do
    IFS=, read -r mac address gateway <<<"$port"
    name=$(interface_of "$mac")
    accept_from_any_side "$name"
    ip link set "$name" up
    ip address replace "$address" dev "$name"
    ip route replace default via "$gateway" dev "$name" table "$table"
    ip rule del from "${address%/*}" table "$table" 2>/dev/null || true
    ip rule add from "${address%/*}" table "$table"
    ip mptcp endpoint add "${address%/*}" dev "$name" "${flags[@]}"
    if ((table == 100)); then
        ip route replace "$server_network" via "$gateway" dev "$name"
    fi
    table=$((table + 100))
    flags=(subflow backup)
done
