# SPDX-License-Identifier: Apache-2.0
"""Download while a test changes the network."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.stage.command import CommandFailed
from lab.stage.nodes import Machine
from lab.traffic.web import WebFile

PROGRAM = str(Path(__file__).with_name("pauses.py"))


@dataclass(frozen=True, slots=True)
class DownloadResult:
    size_bytes: int
    sha256: str
    seconds: float
    longest_pause_s: float
    longest_pause_ended_at: float  # Unix seconds


class Flowing:
    def __init__(self, machine: Machine, file: WebFile, protocol: str) -> None:
        self._where = machine.name
        self._process = machine.popen([sys.executable, PROGRAM, file.url, protocol], text=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "flowing\n":
            raise CommandFailed(f"{machine.name}: the download did not begin: {self._process.communicate()[1]}")

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def received(self) -> DownloadResult:
        out, errors = self._process.communicate()
        if self._process.returncode != 0:
            raise CommandFailed(f"{self._where}: the download failed: {errors.strip()}")
        result = json.loads(out)
        return DownloadResult(
            result["bytes"],
            result["sha256"],
            result["seconds"],
            result["longest_pause_s"],
            result["longest_pause_ended_at"],
        )

    def abandon(self) -> None:
        if not self.ended:
            self._process.kill()
            self._process.communicate()


@contextmanager
def flowing(machine: Machine, file: WebFile, protocol: str = "mptcp") -> Iterator[Flowing]:
    """Run a download whose first megabyte has arrived when the block begins."""
    download = Flowing(machine, file, protocol)
    try:
        yield download
    finally:
        download.abandon()
