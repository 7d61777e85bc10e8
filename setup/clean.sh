#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Removes all that `make` made here, and ends runs of this tree that are still alive. Such a run lives in a process
# namespace of its own, carries BICAST_TREE=<this tree> and sees this tree there, on a host of this name; nothing else is
# touched: not a controller that serves a real gateway, not another tree's lab nor a container's, not the system's Open
# vSwitch. Packages and Vagrant's machines stay.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

# shares NAMESPACE PROCESS: whether that process, which may end while it is looked at, is in our namespace of this kind
shares() {
    [[ $(readlink "$2/ns/$1" 2>/dev/null) == "$(readlink "/proc/self/ns/$1")" ]]
}

end_runs() {
    local process pid name
    for process in /proc/[0-9]*; do
        pid=${process#/proc/}
        ! shares pid "$process" || continue
        shares uts "$process" || continue # a container has a name of its own
        [[ $process/root$PWD -ef $PWD ]] || continue
        grep -qszxF "BICAST_TREE=$PWD" "$process/environ" || continue
        name=$(tr '\0' ' ' 2>/dev/null <"$process/cmdline" || true)
        # One that has ended with its world since it was found has no command line any more.
        [[ -n $name ]] || continue
        echo "clean: ending process $pid: $name"
        kill -KILL "$pid" 2>/dev/null || true
    done
}

end_runs
rm -rf .venv .venv-ryu .vm .go build results .mypy_cache .pytest_cache .ruff_cache .hypothesis
shopt -s globstar
rm -f agent/**/*.bpf.o
find . -name .git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
