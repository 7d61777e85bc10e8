#!/usr/bin/env bash
# All that this machine needs for the lab and the tests: Debian packages, .venv, the link emulator and the agent in
# build, .venv-ryu where Ryu can live, and .go where the machine's own Go is missing or old.
# Nothing but packages goes outside this directory. A second run finds everything there and takes a second.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

supported() {
    local ID='' VERSION_ID=''
    # shellcheck disable=SC1091  # every Debian and Ubuntu has it
    . /etc/os-release
    case $ID-$VERSION_ID in
    debian-12 | debian-13 | ubuntu-24.04) ;;
    *) echo "setup: this is made for Debian 12 and 13 and Ubuntu 24.04, and $ID $VERSION_ID is none of them; trying" >&2 ;;
    esac
}

# Ryu 4.34, the last one, does not work with what Python 3.12 removed.
ryu() {
    local version
    version=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [[ $version == 3.11 ]]; then
        PIP_CONSTRAINT=$PWD/setup/ryu-build.txt PIP_USE_PEP517=1 setup/venv.sh .venv-ryu requirements-ryu.txt
    else
        echo "setup: Ryu 4.34 wants Python 3.11 and this machine has $version: no .venv-ryu, no tests on Ryu here"
    fi
}

if [[ ! -x build/bicast-agent || ! -x .venv/bin/python ]]; then
    echo "setup: the first time this takes some minutes: Debian packages, Python environments, the link emulator, the agent"
fi
exec {lock}<setup
flock "$lock"
supported
setup/packages.sh setup/packages/{gateway,endpoint,lab,test}.txt
set -m # a process group of its own, which can be ended with all that is in it
ryu &  # its wheels take as long to build as all the rest
beside=$!
set +m
trap 'kill -- "-$beside" 2>/dev/null || true' EXIT
setup/venv.sh .venv requirements-dev.txt requirements.txt constraints.txt
setup/emulator.sh
setup/agent.sh
wait "$beside"
trap - EXIT
