#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the agent of this tree a service of this machine, which systemd starts now and at boot. Before that the agent
# joined a controller with `bicast-agent join`.
#
#   deploy/install-agent.sh [gateway|terminal|relay]
set -euo pipefail

role=${1-gateway}
[[ $# -le 1 && $role =~ ^(gateway|terminal|relay)$ ]] || { echo "usage: ${0##*/} [gateway|terminal|relay]" >&2; exit 64; }
((EUID == 0)) || { echo "install-agent: only root can install a service" >&2; exit 77; }
tree=$(dirname "$(dirname "$(readlink -f "$0")")")
[[ -x $tree/build/bicast-agent ]] || { echo "install-agent: there is no $tree/build/bicast-agent: make setup there" >&2; exit 78; }
[[ -d /var/lib/bicast-agent ]] || {
    echo "install-agent: this agent has joined no controller: ./bicast enroll NAME there prints the line to type here" >&2
    exit 78
}
units=/etc/systemd/system
# Beside and renamed: a program that runs cannot be overwritten.
install -D -m 755 "$tree/build/bicast-agent" /usr/local/bin/bicast-agent.new
mv /usr/local/bin/bicast-agent.new /usr/local/bin/bicast-agent
install -D -m 644 -t "$units" "$tree/deploy/bicast-agent@.service"
install -D -m 644 -t "$units/bicast-agent@$role.service.d" "$tree/deploy/bicast-agent@$role.service.d/rights.conf"
systemctl daemon-reload
# One agent on one host: instances of other roles end, as does the unit without a role that versions up to 0.0.0 had.
for unit in bicast-agent.service bicast-agent@{gateway,terminal,relay}.service; do
    [[ $unit == "bicast-agent@$role.service" || ! -e $units/multi-user.target.wants/$unit ]] || systemctl --quiet disable --now "$unit"
done
rm -rf "$units"/bicast-agent.service{,.d}
systemctl --quiet enable "bicast-agent@$role"
systemctl restart "bicast-agent@$role"
