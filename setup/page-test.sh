#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Uses the controller's page as a person does: Debian's Chromium, a laboratory with real traffic (tests/page). axe, which
# looks for what a screen reader or a keyboard could not use, comes from the npm registry once. Screenshots are in
# results/page; one becomes the README's.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

readonly axe=axe-core-4.14.1 sha256=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745

setup/packages.sh setup/packages/page.txt
if [[ ! -e build/$axe/package/axe.min.js ]]; then
    mkdir -p "build/$axe"
    curl --silent --show-error --fail --output "build/$axe.tgz" "https://registry.npmjs.org/axe-core/-/$axe.tgz"
    echo "$sha256  build/$axe.tgz" | sha256sum --check --quiet
    tar --extract --file="build/$axe.tgz" --directory="build/$axe"
fi
export BICAST_AXE=$PWD/build/$axe/package/axe.min.js
.venv/bin/python -m lab.stage.isolate .venv/bin/python -m pytest "$@" tests/page
cat results/page/cost.txt
cp results/page/page.png docs/pictures/page.png
