#!/usr/bin/env bash
# Everything that can be said about the code without running it.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

# Shell scripts, known by their first line; untracked ones too, ignored ones not.
scripts() {
    local file line
    while IFS= read -r -d '' file; do
        [[ -f $file ]] || continue
        IFS= read -r line 2>/dev/null <"$file" || true
        [[ $line =~ ^\#!.*[/\ ](ba|da|)sh($|\ ) ]] && printf '%s\0' "$file"
    done < <(find . -name '.?*' -prune -path './.ci' -o -name results -prune -o -type f -print0; find .ci -type f -print0)
}

run() {
    echo "check: $*"
    "$@"
}

run .venv/bin/ruff check --quiet .
run .venv/bin/ruff format --check --quiet .
run .venv/bin/mypy --strict
mapfile -d '' -t files < <(scripts)
echo "check: shellcheck of ${#files[@]} scripts"
shellcheck "${files[@]}"
