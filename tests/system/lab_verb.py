# SPDX-License-Identifier: Apache-2.0
"""The lab as people start it, in an isolated world, and its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from lab.processes.controller import TREE
from lab.stage.isolate import MARK
from tests.system.evidence import PATIENCE_S


def lab_program(size_bytes: int) -> str:
    """Return a program that runs the verb with a file of another size."""
    return (
        f"import sys, cli.lab, cli.lab_home; cli.lab.SIZE_BYTES = {size_bytes}; cli.lab_home.SIZE_BYTES = 200_000; "
        "from cli.__main__ import main; sys.exit(main(['lab']))"
    )


def processes_of(tree: str) -> dict[int, str]:
    """Return the processes in all namespaces that carry the tree's mark, with their command lines."""
    mark = f"BICAST_TREE={tree}".encode()
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
    return found


class RunningLab:
    def __init__(self, mark: str, process: subprocess.Popen[str]) -> None:
        self._mark = mark
        self.process = process

    def says(self, word: str) -> list[str]:
        """Return its output up to the line with this word."""
        assert self.process.stdout is not None
        said = []
        too_long = threading.Timer(PATIENCE_S, self.process.kill)
        too_long.start()
        try:
            for line in self.process.stdout:
                said.append(line.rstrip())
                if word in line:
                    return said
        finally:
            too_long.cancel()
        raise AssertionError(
            f"it ended, or {PATIENCE_S} s passed, without {word!r}: {said} {self.process.communicate()[1]}"
        )

    def members(self) -> dict[int, str]:
        return processes_of(self._mark)

    def kill(self, program: str) -> None:
        (pid,) = [pid for pid, command in self.members().items() if program in command]
        os.kill(pid, signal.SIGKILL)


@contextmanager
def raised_lab(size_bytes: int) -> Iterator[RunningLab]:
    mark = f"/{uuid4()}"
    outside = {name: value for name, value in os.environ.items() if name not in (MARK, "LAB_ONCE")}
    with subprocess.Popen(
        [sys.executable, "-c", lab_program(size_bytes)],
        cwd=TREE,
        env={**outside, "PYTHONPATH": str(TREE), "BICAST_TREE": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield RunningLab(mark, process)
        finally:
            process.kill()
