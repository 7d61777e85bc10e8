# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts of the machines.
# shellcheck shell=bash

# The network interface that has the given MAC: its number depends on the provider, the MAC is the paper's.
interface_of() {
    local name
    name=$(ip -brief link | awk -v mac="${1,,}" '$3 == mac { sub(/@.*/, "", $1); print $1; exit }')
    if [[ -z $name ]]; then
        echo "${0##*/}: no network interface here has the MAC $1" >&2
        return 1
    fi
    echo "$name"
}

# Copies arrive "from the wrong side", where a reverse path filter would drop them without a word.
accept_from_any_side() {
    local name
    for name in all default "$@"; do
        sysctl -qw "net.ipv4.conf.$name.rp_filter=0"
    done
}

speak_mptcp() {
    sysctl -qw net.mptcp.enabled=1
    ip mptcp limits set subflow 8 add_addr_accepted 8
}
