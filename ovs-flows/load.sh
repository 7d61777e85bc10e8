#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Puts the groups and flows of a folder on a bridge that has no controller, in the place of those that it holds of ours.
#   ovs-flows/load.sh BRIDGE FOLDER
# It is one transaction of the switch: each packet meets the old program or the new one, and if anything is refused,
# the bridge stays as it was. What is not ours stays: ours are the flows with our cookie, and the groups from
# 0x62000000 to 0x62ffffff.
set -eu
[ $# -eq 2 ] || { echo "usage: $0 BRIDGE FOLDER" >&2; exit 2; }
bridge=$1 groups=$2/groups.txt flows=$2/flows.txt

fail() {
    echo "$0: $*; $bridge is as it was" >&2
    exit 1
}

switch() {
    ovs-ofctl -O OpenFlow13 --names "$@"
}

# The lines of file $2, each with the words $1 before it; every line must be one that `bicast render` has written.
ours() {
    awk -v words="$1" -v kind="${1%% *}" '
        /^[ \t]*(#|$)/ { next }
        kind == "flow" && /^cookie=0x626963617374/ { print words, $0; found = 1; next }
        kind == "group" && /^group_id=[0-9]+,/ {
            id = substr($0, 10) + 0
            if (id >= 1644167168 && id < 1660944384) { print words, $0; found = 1; next }
        }
        { complaint = "line " NR " is none that `bicast render` writes: " substr($0, 1, 60); exit }
        END {
            if (!found && complaint == "") complaint = "it names no " kind
            if (complaint != "") { print FILENAME ": " complaint >"/dev/stderr"; exit 1 }
        }' "$2"
}

# Groups of ours that the bridge holds ($held, as dumped) and the file does not name.
left_over() {
    printf '%s\n' "$held" | awk '
        FNR == NR { if (/^group_id=/) named[substr($0, 10) + 0] = 1; next }
        match($0, /group_id=[0-9]+/) {
            id = substr($0, RSTART + 9, RLENGTH - 9) + 0
            if (id >= 1644167168 && id < 1660944384 && !(id in named)) print "group delete group_id=" id
        }' "$groups" -
}

# The first flow of somebody else, by $differences, in the very place of one of ours: to load would remove it.
in_our_place() {
    printf '%s\n' "$differences" | awk '
        { place = substr($0, 2); sub(/ (cookie=|idle_timeout=|hard_timeout=|send_flow_rem|actions=).*/, "", place) }
        /^-/ && !/ cookie=0x626963617374/ { foreign[place] = 1 }
        /^[+]/ && place in foreign { print place; exit }'
}

for file in "$groups" "$flows"; do
    [ -r "$file" ] || fail "$file cannot be read; \`bicast render\` writes it"
done
held=$(switch dump-groups "$bridge") || fail "its groups cannot be read"
# diff-flows ends with 2 when there are differences.
differences=$(switch diff-flows "$bridge" "$flows") || [ $? -eq 2 ] || fail "$flows cannot be compared with its flows"
foreign=$(in_our_place)
[ -z "$foreign" ] || fail "a flow of somebody else stands where one of ours would ($foreign): remove one of the two"
# Groups come first and go last, so that no flow leads to one that is not there.
transaction=$(
    ours "group add_or_mod" "$groups" &&
        echo "flow delete cookie=0x6269636173740000/0xffffffffffff0000" &&
        ours "flow add" "$flows" &&
        left_over
) || fail "nothing is loaded"
printf '%s\n' "$transaction" | switch bundle "$bridge" - || fail "the switch has refused what $2 holds"
echo "$bridge holds what $2 says"
