#!/usr/bin/env bash
# Every test: Go's, and beside them what depends on the OpenFlow library, on Ryu; then the whole suite on os-ken, each in
# a world of its own (topologies/isolate.py). The last line printed is pytest's own summary of the whole suite.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit
# Without it an interrupted first run would be followed by the second.
trap 'exit 130' INT
export BICAST_TREE=$PWD # by this setup/clean.sh knows our processes

world() {
    setpriv --pdeathsig KILL .venv/bin/python -m topologies.isolate "$@"
}

# pytest ARGUMENT ... of the environment $1
run() {
    local python=$1/bin/python
    shift
    setpriv --pdeathsig KILL "$python" -m topologies.isolate "$python" -m pytest "$@"
}

go_said=build/go-test.log
mkdir -p build
world setup/go.sh test -count=1 ./... >"$go_said" 2>&1 &
go=$!

# What depends on the OpenFlow library. Ryu's environment has what these tests need, and no more.
on_both=(tests/wire)
on_ryu=0
if [[ -x .venv-ryu/bin/python ]]; then
    echo "test: on Ryu"
    run .venv-ryu "${on_both[@]}"
    on_ryu=$?
fi
wait "$go"
on_go=$?
echo "test: Go"
cat "$go_said"
echo "test: on os-ken"
run .venv
on_os_ken=$?

if ((on_go)); then
    echo "test: Go's tests, above, failed" >&2
    exit "$on_go"
fi
if ((on_ryu)); then
    echo "test: the run on Ryu, above, failed" >&2
    exit "$on_ryu"
fi
exit "$on_os_ken"
