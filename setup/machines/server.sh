#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The server: nginx speaking MPTCP, with the paper's file of 500 MB, and the ways back to both of the client's addresses.
#
#   server.sh MAC ADDRESS/PREFIX ROUTER CONGESTION-CONTROL NETWORK-OF-THE-CLIENT ...
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
. ./common.sh

../packages.sh ../packages/endpoint.txt
mac=$1 address=$2 router=$3 congestion_control=$4
shift 4
name=$(interface_of "$mac")
accept_from_any_side "$name"
speak_mptcp
modprobe --quiet "tcp_$congestion_control" || true # where it is built in, there is no module
ip link set "$name" up
ip address replace "$address" dev "$name"
for network in "$@"; do
    ip route replace "$network" via "$router" dev "$name" congctl "$congestion_control"
done

file=/var/www/html/500MB
[[ -f $file ]] || head -c 500000000 /dev/urandom >"$file"
mkdir -p /etc/systemd/system/nginx.service.d
cat >/etc/systemd/system/nginx.service.d/mptcp.conf <<'UNIT'
[Service]
ExecStart=
ExecStart=/usr/bin/mptcpize run /usr/sbin/nginx -g 'daemon on; master_process on;'
UNIT
systemctl daemon-reload
systemctl --quiet enable nginx
systemctl restart nginx
