#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gives an interface a rate and a loss for what it sends: the gateway's half of section 4.2 of the paper.
# Needs a kernel with netem, as Debian's own has.
#
#   link.sh INTERFACE MBPS LOSS-PERCENT
set -euo pipefail

(($# == 3)) || { echo "usage: ${0##*/} INTERFACE MBPS LOSS-PERCENT" >&2; exit 64; }
tc qdisc replace dev "$1" root netem rate "$2mbit" loss "$3%" limit 1000
