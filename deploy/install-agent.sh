#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the agent of a gateway, or of the rented machine at the other end, a service of this machine, or that of a relay, or
# of a terminal, such as a laptop: systemd starts it now and at boot. It has joined before, by `bicast-agent join`.
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
# Beside and renamed: one that runs cannot be written over.
install -D -m 755 "$tree/build/bicast-agent" /usr/local/bin/bicast-agent.new
mv /usr/local/bin/bicast-agent.new /usr/local/bin/bicast-agent
install -D -m 644 "$tree/deploy/bicast-agent.service" "$units/bicast-agent.service"
rm -f "$units/bicast-agent.service.d/"{gateway,terminal,relay}.conf
install -D -m 644 "$tree/deploy/bicast-agent-$role.conf" "$units/bicast-agent.service.d/$role.conf"
systemctl daemon-reload
systemctl --quiet enable bicast-agent
systemctl restart bicast-agent
