#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The quick checks, and every test that is neither timed nor slow (setup/measure.sh runs those), at the same time: Go's and
# the whole suite on os-ken, each in a world of its own (lab/stage/isolate.py), and the suite's workers too. The last line
# printed is pytest's own summary of the whole suite.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit
# Without it an interrupted run would be followed by the reports of what it left.
trap 'exit 130' INT
export BICAST_TREE=$PWD # by this setup/clean.sh knows our processes
unset PYTHONDONTWRITEBYTECODE # hundreds of processes import the same modules
mkdir -p build
colour=no
[[ -t 1 ]] && colour=yes

# world LOG COMMAND ...: in the background, in the place of the shell that starts it, so that it dies with this one, and
# with Ctrl-C as everywhere: bash has what it runs in the background ignore it, which the tests' children would inherit.
world() {
    local log=$1
    shift
    (exec env --default-signal=INT setpriv --pdeathsig KILL "$python" -m lab.stage.isolate "$@" >"$log" 2>&1 </dev/null) &
}

python=.venv/bin/python
world build/go-test.log setup/go.sh test -vet=all -ldflags=-s -count=1 -skip '^TestTimed' ./...
go=$!
# Most tests wait for something real, and four files' waiting is done at once. In the order of the files: the long ones by
# number of tests are not those by time.
world build/test.log "$python" -m pytest -m "not timed and not slow" --color="$colour" --dist loadfile \
    --no-loadscope-reorder --tx "4*popen//python=$python -m lab.stage.isolate $python"
on_os_ken=$!
world build/check.log nice -n 10 setup/check.sh # the tests wait for real things, and those want their time
checks=$!

failed=()
# ended PID LOG WHAT: waits for it and shows what it printed
ended() {
    wait "$1"
    local code=$?
    echo "test: $3"
    cat "$2"
    ((code == 0)) || failed+=("$3")
}
ended "$checks" build/check.log "what can be said without running"
ended "$go" build/go-test.log Go
echo "test: on os-ken"
tail --lines=+1 --follow --pid="$on_os_ken" build/test.log &
wait "$on_os_ken"
code=$?
wait # for what it printed last

for what in "${failed[@]}"; do
    echo "test: $what, above, failed" >&2
    code=1
done
exit "$code"
