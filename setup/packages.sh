#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages named in the given lists, and only those that are missing, so that a machine without
# the Internet passes when all is there. Called by setup/setup.sh and by the machines of the Vagrantfile.
#
#   setup/packages.sh LIST.txt ...
set -euo pipefail

readonly policy=/usr/sbin/policy-rc.d
readonly mark="# bicast: nginx is for the lab only"

# Those of the given packages for which apt has a candidate: one call, since each reads all of apt's lists.
known() {
    (($#)) || return 0
    apt-cache madison "$@" 2>/dev/null | awk '{ print $1 }' | sort -u
}

# The packages in the given lists that are not installed, without the optional ones that apt does not know.
missing() {
    local -a wanted optional=()
    local -A installed=()
    local name status
    mapfile -t wanted < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$@" | sort -u)
    while read -r name status; do
        [[ $status == installed ]] && installed[$name]=1
    done < <(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${wanted[@]%\?}" 2>/dev/null)
    for name in "${wanted[@]}"; do
        if [[ -n ${installed[${name%\?}]-} ]]; then
            continue
        elif [[ $name == *\? ]]; then
            optional+=("${name%\?}")
        else
            echo "$name"
        fi
    done
    known "${optional[@]}"
}

install() {
    # needrestart, which Ubuntu has, would restart the machine's other services.
    DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
        apt-get install --yes --quiet=2 --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
}

# Our web servers live in namespaces of their own: Debian's nginx service must not begin to listen on this machine
# because of us. A policy that is already there stays; one that a killed run left behind is ours to remove.
forbid_nginx() {
    [[ -e $policy ]] && ! grep -qF "$mark" "$policy" && return
    trap 'rm -f "$policy"' EXIT
    cat >"$policy" <<POLICY
#!/bin/sh
$mark
[ "\$1" != nginx ] || exit 101
POLICY
    chmod 755 "$policy"
}

main() {
    local -a absent
    mapfile -t absent < <(missing "$@")
    ((${#absent[@]})) || return 0

    if ((EUID != 0)); then
        echo "setup: only root can install what is missing: ${absent[*]}" >&2
        echo "setup: run this again as root, or: sudo apt-get install ${absent[*]}" >&2
        return 77
    fi
    echo "setup: installing ${absent[*]}"
    [[ " ${absent[*]} " == *" nginx "* ]] && forbid_nginx
    if (($(known "${absent[@]}" | wc --lines) < ${#absent[@]})) || ! install "${absent[@]}"; then
        echo "setup: apt's lists are missing or old: updating them"
        apt-get update --quiet=2 -o DPkg::Lock::Timeout=300
        mapfile -t absent < <(missing "$@")
        install "${absent[@]}"
    fi
    if [[ " ${absent[*]} " == *" nginx "* ]] && command -v systemctl >/dev/null; then
        systemctl --quiet disable nginx.service
    fi
}

(($#)) || { echo "usage: ${0##*/} LIST.txt ..." >&2; exit 64; }
main "$@"
