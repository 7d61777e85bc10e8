#!/usr/bin/env bash
# The tests that `make test` leaves out: time decides them, by a rate, a round trip or a deadline. They run one after the
# other and want a machine that does nothing else. A test that fails is measured twice more, and the median decides.
# Hypothesis draws new examples here and keeps those that fail in .hypothesis. The last line printed is pytest's own
# summary of the suite on os-ken.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit
export BICAST_TREE=$PWD # by this setup/clean.sh knows our processes
export PYTHONPYCACHEPREFIX=$PWD/build/measured # pytest compiles assertions in another way here

# measured PYTHON ARGUMENT...: pytest's tests, in a world of their own
measured() {
    "$1" -m lab.stage.isolate "$1" -m pytest -p tests.measurement -o enable_assertion_pass_hook=true "${@:2}" </dev/null
}

code=0
if [[ -x .venv-ryu/bin/python ]]; then
    echo "measure: on Ryu"
    measured .venv-ryu/bin/python -m "timed or hypothesis" tests/controller/edges/openflow || code=1
fi
echo "measure: on os-ken"
measured .venv/bin/python -m "timed or hypothesis" || code=1
exit "$code"
