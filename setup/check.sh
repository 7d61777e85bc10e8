#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What can be said in seconds about the code without running it: form, types, shell scripts.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

# Shell scripts, by name or by first line.
scripts() {
    local file line
    while IFS= read -r -d '' file; do
        IFS= read -r line 2>/dev/null <"$file" || true
        if [[ $file == *.sh || $line =~ ^\#!.*[/\ ](ba|da|)sh($|\ ) ]]; then
            printf '%s\0' "$file"
        fi
    done < <(find . -path ./.ci -o -name '.?*' -prune -o -path ./results -prune -o -path ./build -prune -o -type f -print0)
}

run() {
    echo "check: $*"
    "$@"
}

# What Go's own formatter would write otherwise.
gofmt() {
    local -a otherwise
    echo "check: gofmt"
    mapfile -t otherwise < <("$(setup/go.sh env GOROOT)/bin/gofmt" -l agent api experiments internal mptcp relay)
    ((${#otherwise[@]} == 0)) || {
        echo "check: setup/go.sh fmt ./... would change ${otherwise[*]}" >&2
        return 1
    }
}

run .venv/bin/ruff check --quiet .
run .venv/bin/ruff format --check --quiet .
run .venv/bin/mypy --strict
gofmt
mapfile -d '' -t files < <(scripts)
echo "check: shellcheck of ${#files[@]} scripts"
shellcheck --external-sources --source-path=SCRIPTDIR "${files[@]}"
