#!/bin/sh
# Puts the groups and flows of a folder on a bridge that has no controller, in the place of what it holds.
#   ovs-flows/load.sh BRIDGE FOLDER
set -eu
[ $# -eq 2 ] || { echo "usage: $0 BRIDGE FOLDER" >&2; exit 2; }
bridge=$1 folder=$2
for file in "$folder/groups.txt" "$folder/flows.txt"; do
    [ -r "$file" ] || { echo "$0: $file cannot be read; \`bicast render\` writes it" >&2; exit 1; }
done
# Flows first, so that none is left pointing at a group that goes.
ovs-ofctl -O OpenFlow13 del-flows "$bridge"
ovs-ofctl -O OpenFlow13 del-groups "$bridge"
ovs-ofctl -O OpenFlow13 add-groups "$bridge" "$folder/groups.txt"
ovs-ofctl -O OpenFlow13 add-flows "$bridge" "$folder/flows.txt"
