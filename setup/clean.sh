#!/usr/bin/env bash
# Removes all that `make` made here, and ends runs of this tree that are still alive. Such a run lives in a process
# namespace of its own and carries BICAST_TREE=<this tree>; nothing else is touched: not a controller that
# serves a real gateway, not another tree's lab, not the system's Open vSwitch. Packages and Vagrant's machines stay.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

end_runs() {
    local process pid here name
    here=$(readlink /proc/self/ns/pid)
    for process in /proc/[0-9]*; do
        pid=${process#/proc/}
        # A process may end while it is looked at.
        [[ $(readlink "$process/ns/pid" 2>/dev/null) != "$here" ]] || continue
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
rm -f agent/*/*.bpf.o
find . -name .git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
