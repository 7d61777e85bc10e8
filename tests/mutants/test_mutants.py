# SPDX-License-Identifier: Apache-2.0
"""The mutants still fit the code: an edit that outdates one fails here, in `make test`, and names it."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.mutants.mutant import TREE, Mutant, mutants

LEAST = {  # mutants, by the beginning of the file's path
    "controller/policy/": 16,
    "controller/program/": 10,
    "controller/edges/": 8,
    "controller/switches/": 3,
    "agent/": 20,
    "relay/": 8,
}
MUTANTS = mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.fault)
def test_mutant_fits_the_file_that_it_breaks(mutant: Mutant) -> None:
    assert "\n" not in mutant.old + mutant.new and mutant.old != mutant.new
    broken = mutant.apply((TREE / mutant.file).read_text())
    if mutant.file.endswith(".py"):
        compile(broken, mutant.file, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.fault)
def test_mutant_names_tests_that_exist(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        path, _, name = test.partition("::")
        text = (TREE / path).read_text()
        assert path.endswith((".py", "_test.go")) and (name or path.endswith(".py"))
        assert re.search(rf"^(def|func) {re.escape(name)}\(", text, re.MULTILINE) or not name, test


def test_mutants_cover_every_part() -> None:
    found = Counter(prefix for mutant in MUTANTS for prefix in LEAST if mutant.file.startswith(prefix))
    assert not {prefix: found[prefix] for prefix, least in LEAST.items() if found[prefix] < least}
    assert len(MUTANTS) >= 60
    assert len({mutant.fault for mutant in MUTANTS}) == len(MUTANTS)
