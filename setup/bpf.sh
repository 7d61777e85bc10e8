#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles what the agent loads into the kernel (bpf/*.bpf.c) to NAME.bpf.o in the Go package that embeds it, when its
# sources are newer than that. One object is good for every machine: BPF has one instruction set.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

for source in bpf/*.bpf.c; do
    name=$(basename "$source" .bpf.c)
    package=$(grep --recursive --files-with-matches --line-regexp --include='*.go' "//go:embed $name.bpf.o" agent) || {
        echo "bpf.sh: no Go package under agent/ embeds $name.bpf.o" >&2
        exit 1
    }
    object=$(dirname "$package")/$name.bpf.o
    if [[ -e $object && -z $(find bpf setup/bpf.sh -newer "$object" -print -quit) ]]; then
        continue
    fi
    # mcpu=v3 (Linux 5.12): counters that say what they were. Renamed when it is whole, so that nobody builds half of it in.
    clang -O2 -g -Wall -Wextra -Werror -target bpf -mcpu=v3 -I"/usr/include/$(uname -m)-linux-gnu" -c "$source" -o "$object.$$"
    llvm-strip -g "$object.$$" # DWARF: what the kernel wants to know is in BTF
    mv "$object.$$" "$object"
done
