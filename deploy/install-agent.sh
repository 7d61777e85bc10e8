#!/usr/bin/env bash
# Makes the agent of a gateway, or of the rented machine at the other end, a service of this machine: systemd starts it now
# and at boot. It has joined before, by `bicast-agent join`.
#
#   deploy/install-agent.sh
set -euo pipefail

(($# == 0)) || { echo "usage: ${0##*/}" >&2; exit 64; }
((EUID == 0)) || { echo "install-agent: only root can install a service" >&2; exit 77; }
tree=$(dirname "$(dirname "$(readlink -f "$0")")")
[[ -x $tree/build/bicast-agent ]] || { echo "install-agent: there is no $tree/build/bicast-agent: make setup there" >&2; exit 78; }
[[ -d /var/lib/bicast-agent ]] || {
    echo "install-agent: this agent has joined no controller: ./bicast enroll SITE there prints the line to type here" >&2
    exit 78
}
units=/etc/systemd/system
# Beside and renamed: one that runs cannot be written over.
install -D -m 755 "$tree/build/bicast-agent" /usr/local/bin/bicast-agent.new
mv /usr/local/bin/bicast-agent.new /usr/local/bin/bicast-agent
install -D -m 644 "$tree/deploy/bicast-agent.service" "$units/bicast-agent.service"
install -D -m 644 "$tree/deploy/bicast-agent-gateway.conf" "$units/bicast-agent.service.d/gateway.conf"
systemctl daemon-reload
systemctl --quiet enable bicast-agent
systemctl restart bicast-agent
