#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the controller a service of this machine: /etc/bicast/gateway.yaml is a copy of the given file, and systemd
# starts it now and at boot. This tree is what runs, so it stands in /opt/bicast, where the service may read
# it. The bridge is prepared before, by `./bicast bridge`, and again whenever Open vSwitch has started anew.
#
#   /opt/bicast/deploy/install.sh GATEWAY.yaml
set -euo pipefail

(($# == 1)) || { echo "usage: ${0##*/} GATEWAY.yaml" >&2; exit 64; }
((EUID == 0)) || { echo "install: only root can install a service" >&2; exit 77; }
tree=$(dirname "$(dirname "$(readlink -f "$0")")")
if [[ $tree != /opt/bicast ]]; then
    echo "install: this is $tree, and the service runs from /opt/bicast: put the tree there and make setup there" >&2
    exit 78
fi
"$tree/bicast" check "$1"
install -D -m 644 "$1" /etc/bicast/gateway.yaml
getent group bicast >/dev/null || groupadd --system bicast
units=/etc/systemd/system
install -m 644 "$tree"/deploy/bicast{,-bridge,-lan}.service "$units"
rm -f "$units"/bicast.service.d/{tls,token,reader-token,api-tls}.conf
for each in tls:tls/controller.key token:api-token reader-token:api-reader-token api-tls:tls/api.key; do
    [[ ! -e /etc/bicast/${each#*:} ]] || install -D -m 644 "$tree/deploy/bicast-${each%%:*}.conf" "$units/bicast.service.d/${each%%:*}.conf"
done
systemctl daemon-reload
systemctl --quiet enable bicast bicast-bridge
systemctl restart bicast
