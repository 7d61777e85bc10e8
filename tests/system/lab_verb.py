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


def lab(size_bytes: int) -> str:
    """Return a program that runs the verb with a file of another size."""
    return (
        f"import sys; import cli.lab; cli.lab.SIZE_BYTES = {size_bytes}; from cli.__main__ import main; "
        "sys.exit(main(['lab']))"
    )


class RunningLab:
    def __init__(self, mark: str, process: subprocess.Popen[str]) -> None:
        self._mark = f"BICAST_TREE={mark}".encode()
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
        """Return its processes in all namespaces, with their command lines."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark in (process / "environ").read_bytes().split(b"\0"):
                    found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
        return found

    def kill(self, program: str) -> None:
        (pid,) = [pid for pid, command in self.members().items() if program in command]
        os.kill(pid, signal.SIGKILL)


@contextmanager
def raised_lab(size_bytes: int) -> Iterator[RunningLab]:
    mark = f"/{uuid4()}"
    outside = {name: value for name, value in os.environ.items() if name not in (MARK, "LAB_ONCE")}
    with subprocess.Popen(
        [sys.executable, "-c", lab(size_bytes)],
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
