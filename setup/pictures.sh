#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws docs/pictures/*.svg from the .dot files beside them. Each SVG names the hash of its source: tests/docs compares it.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../docs/pictures"

if ! command -v dot >/dev/null; then
    echo "pictures: the program dot is missing; install it with: apt-get install graphviz" >&2
    exit 1
fi
for source in *.dot; do
    {
        dot -Tsvg "$source"
        echo "<!-- sha256 of $source: $(sha256sum "$source" | cut -d' ' -f1) -->"
    } >"${source%.dot}.svg.new"
    mv "${source%.dot}.svg.new" "${source%.dot}.svg"
    echo "pictures: docs/pictures/${source%.dot}.svg"
done
