#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make test` leaves out: the tests that time decides, by a rate, a round trip or a deadline, the slow ones,
# those on Ryu, and staticcheck. They run one after the other and want a machine that does nothing else. A timed test that
# fails is measured twice more, and the median decides. Hypothesis and the elimination's random paths draw anew here, and
# Hypothesis keeps the examples that fail in .hypothesis. The last line printed is pytest's own summary of the suite on
# os-ken.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit
export BICAST_TREE=$PWD # by this setup/clean.sh knows our processes
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=$PWD/build/measured # pytest compiles assertions in another way here

# measured PYTHON ARGUMENT...: pytest's tests, in a world of their own
measured() {
    "$1" -m lab.stage.isolate "$1" -m pytest -p tests.measurement -o enable_assertion_pass_hook=true "${@:2}" </dev/null
}

code=0
setup/check-go.sh || code=1
echo "measure: elimination on random paths"
.venv/bin/python -m lab.stage.isolate setup/go.sh test -count=1 ./agent/elimination -args -seed "$(date +%s%N)" || code=1
setup/ryu.sh || code=1
if [[ -x .venv-ryu/bin/python ]]; then
    echo "measure: on Ryu"
    measured .venv-ryu/bin/python tests/controller/edges/openflow || code=1
fi
echo "measure: on os-ken"
measured .venv/bin/python -m "timed or slow or hypothesis" || code=1
exit "$code"
