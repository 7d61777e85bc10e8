#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The cable between the controller and the agents' machines, which the paper's network does not have.
#
#   control.sh MAC ADDRESS/PREFIX
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
. ./common.sh

name=$(interface_of "$1")
ip link set "$name" up
ip address replace "$2" dev "$name"
