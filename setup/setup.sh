#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All that this machine needs for the lab and the tests: Debian packages, .venv, the link emulator and the agent in
# build, and .go where the machine's own Go is missing or old.
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

if [[ ! -x build/bicast-agent || ! -x .venv/bin/python ]]; then
    echo "setup: the first time this takes some minutes: Debian packages, Python environments, the link emulator, the agent"
fi
exec {lock}<setup
flock "$lock"
supported
setup/packages.sh setup/packages/{gateway,endpoint,lab,test}.txt
set -m # a process group of its own, which can be ended with all that is in it
setup/version.sh controller/version.txt
setup/agent.sh &
beside=$!
set +m
trap 'kill -- "-$beside" 2>/dev/null || true' EXIT
setup/emulator.sh
setup/venv.sh .venv requirements-dev.txt requirements.txt constraints.txt
wait "$beside"
trap - EXIT
