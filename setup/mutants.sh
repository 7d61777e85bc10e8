#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Breaks one line at a time, in a copy of the tree, and sees the tests fail: a mutant that survives fails the run.
#
#   setup/mutants.sh [WORD ...]     all mutants, or those with one of these words in their file or fault
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
export BICAST_TREE=$PWD # by this setup/clean.sh knows our processes
exec .venv/bin/python -m tests.mutants "$@"
