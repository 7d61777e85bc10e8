#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes .venv-ryu: Ryu itself, and what the tests need with it. Ryu 4.34, the last one, does not work with what Python 3.12
# removed.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

version=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [[ $version != 3.11 ]]; then
    echo "ryu.sh: Ryu 4.34 wants Python 3.11 and this machine has $version: no .venv-ryu, no tests on Ryu here" >&2
    exit
fi
# ryu-manager imports a name that eventlet has dropped.
readonly name=ALREADY_HANDLED
PIP_CONSTRAINT=$PWD/setup/ryu-build.txt PIP_USE_PEP517=1 setup/venv.sh .venv-ryu requirements-ryu.txt
echo "import eventlet.wsgi; vars(eventlet.wsgi).setdefault('$name', object())" \
    >.venv-ryu/lib/python3.11/site-packages/ryu_manager.pth
