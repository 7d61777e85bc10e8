# SPDX-License-Identifier: Apache-2.0
"""Apply each mutant to a copy of the tree and run its tests: a mutant that they do not catch fails the run.

    python -m tests.mutants [WORD ...]      all mutants, or those with one of these words in their file or fault

The copy stands in the tree's own place, in a mount namespace that ends with this process: virtual environment, Go's
cache and paths are the tree's, and no mutant is ever written to it. First all tests run on the unchanged copy, since a
mutant that a broken test catches counts for nothing. Neither does one that does not compile.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from lab.stage import isolate
from tests.counted import OF_MAKE_TEST
from tests.mutants.mutant import TREE, Mutant, mutants

PYTHON = str(TREE / ".venv/bin/python")
COPY = isolate.RUN / "mutants"  # in the memory of the isolated world, which ends with it
LIST = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
SHARED = (".venv", ".go", "build")
# As in `make test`, and no further than the first test that fails.
PYTEST = (PYTHON, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", OF_MAKE_TEST)
GO_TEST = ("setup/go.sh", "test", "-short", "-count=1", "-failfast", "-skip", "^TestTimed")
WITHIN_S = 120
ALL_WITHIN_S = 900  # the tests on the unchanged copy, of one language
FAILED_TEST = re.compile(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$|^--- FAIL: (\S+)", re.MULTILINE)


class Verdict(StrEnum):
    CAUGHT = "caught"
    SURVIVED = "SURVIVED"
    ERROR = "ERROR"  # it did not compile, or its tests did not end in time


def take_place() -> None:
    """Mount a copy of what git knows, and of what is not committed yet, in the place of the tree."""
    listed = subprocess.check_output(LIST, cwd=TREE).decode()
    made = (path.relative_to(TREE) for path in (TREE / "agent").glob("**/*.bpf.o"))
    for name in (*map(Path, filter(None, listed.split("\0"))), *made):
        if (TREE / name).is_file():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TREE / name, COPY / name)
    for each in SHARED:
        (COPY / each).mkdir()
        subprocess.run(["mount", "--bind", TREE / each, COPY / each], check=True)
    subprocess.run(["mount", "--rbind", COPY, TREE], check=True)
    os.chdir(TREE)


@contextmanager
def mutated(mutant: Mutant, number: int) -> Iterator[None]:
    path = TREE / mutant.file
    text, times = path.read_text(), path.stat()
    path.write_text(mutant.apply(text))
    os.utime(path, (number, number))  # Python recompiles by time and size, and both may be those of the mutant before
    try:
        yield
    finally:
        path.write_text(text)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def command(tests: Iterable[str]) -> list[str]:
    """Return the command that runs these tests, all of one language."""
    split = [test.partition("::") for test in dict.fromkeys(tests)]
    if split[0][0].endswith(".py"):
        ids = [path + colons + name for path, colons, name in split]
        return [*PYTEST, *ids]
    names = "|".join(sorted({name for _, _, name in split}))
    packages = sorted({f"./{Path(path).parent}" for path, _, _ in split})
    return [*GO_TEST, "-run", f"^({names})$", *packages]


def tried(tests: Iterable[str], within_s: float) -> tuple[Verdict, str]:
    """Run the tests in an isolated world. Return the verdict with the first failed test, or with all output."""
    argv = [PYTHON, "-m", "lab.stage.isolate", *command(tests)]
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    try:
        done = subprocess.run(argv, stdin=null, stdout=pipe, stderr=subprocess.STDOUT, text=True, timeout=within_s)
    except subprocess.TimeoutExpired:
        return Verdict.ERROR, f"its tests did not end within {within_s:g} s"
    if done.returncode == 0:
        return Verdict.SURVIVED, ""
    failed = FAILED_TEST.search(done.stdout)
    if done.returncode != 1 or failed is None or re.search(r"\[(build|setup) failed\]", done.stdout):
        return Verdict.ERROR, done.stdout
    return Verdict.CAUGHT, failed[1] or failed[2]


def main(words: list[str]) -> int:
    chosen = [each for each in mutants() if not words or any(word in each.file or word in each.fault for word in words)]
    take_place()
    for suffix in (".py", ".go"):
        tests = [test for each in chosen for test in each.tests if test.partition("::")[0].endswith(suffix)]
        if tests and (outcome := tried(tests, ALL_WITHIN_S))[0] is not Verdict.SURVIVED:
            print(f"mutants: a test of {suffix} files fails without any mutant: {outcome[1]}", file=sys.stderr)
            return 1
    verdicts: dict[Mutant, Verdict] = {}
    for number, mutant in enumerate(chosen, 1):
        began, where = time.monotonic(), mutant.where
        with mutated(mutant, number):
            verdicts[mutant], what = tried(mutant.tests, WITHIN_S)
        took = f"{number:3}/{len(chosen)} {verdicts[mutant]:8} {time.monotonic() - began:5.1f} s"
        print(f"{took}  {where}: {mutant.fault}; {what or ', '.join(mutant.tests)}", flush=True)
    for mutant, verdict in verdicts.items():
        if verdict is not Verdict.CAUGHT:
            print(f"mutants: {verdict}: {mutant.fault} ({mutant.file})", file=sys.stderr)
    caught = list(verdicts.values()).count(Verdict.CAUGHT)
    print(f"{caught} of {len(chosen)} mutants are caught")
    return 0 if chosen and caught == len(chosen) else 1


if __name__ == "__main__":
    isolate.enter()
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
