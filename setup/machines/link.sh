#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gives an interface a rate and a loss for what it sends: the gateway's half of section 4.2 of the paper.
# Needs a kernel with netem, as Debian's own has.
#
#   link.sh INTERFACE MBPS LOSS-PERCENT
set -euo pipefail

(($# == 3)) || { echo "usage: ${0##*/} INTERFACE MBPS LOSS-PERCENT" >&2; exit 64; }
# From a port without this, Open vSwitch removes whatever it does not know.
if ovs-vsctl --no-heading --columns=name list Port "$1" >/dev/null 2>&1; then
    ovs-vsctl -- --id=@noop create QoS type=linux-noop -- set Port "$1" qos=@noop >/dev/null
fi
tc qdisc replace dev "$1" root netem rate "$2mbit" loss "$3%" limit 1000
