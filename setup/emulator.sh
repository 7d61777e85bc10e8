#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the link emulator (lab/links/emulator) to build/link-emulator, when its sources are newer than that.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

readonly program=build/link-emulator
readonly sources=(lab/links/emulator/*.c)

if [[ -e $program && -z $(find lab/links/emulator setup/emulator.sh -newer "$program" -print -quit) ]]; then
    exit 0
fi
mkdir -p build
# Renamed when it is whole, so that nobody runs a half of it.
gcc -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -o "$program.$$" "${sources[@]}" -lm
mv "$program.$$" "$program"
