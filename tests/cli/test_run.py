# SPDX-License-Identifier: Apache-2.0
"""`run` logs with timestamps, except to systemd's journal, which adds its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.controller.edges.agentlink.test_real_agent import SITE, TREE, free_ports

TIMED = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (INFO|WARNING) \S.*"
BARE = r"(INFO|WARNING) \S.*"

Where = Callable[[], AbstractContextManager[tuple[int, int]]]
"""Makes two descriptors. Bytes written to the second are read from the first."""


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    ours, its = os.pipe()
    yield ours, its
    os.close(ours)


@contextmanager
def _journal() -> Iterator[tuple[int, int]]:
    """Yield the ends of a socket: systemd's journal is one, too."""
    ours, its = socket.socketpair()
    yield ours.fileno(), its.detach()
    ours.close()


@pytest.mark.parametrize(
    ("where", "journal", "form"),
    [(_pipe, False, TIMED), (_journal, True, BARE), (_journal, False, TIMED)],
    ids=["pipe", "journal", "beside the journal"],
)
def test_each_log_line_has_one_timestamp(tmp_path: Path, where: Where, journal: bool, form: str) -> None:
    (tmp_path / "gateway.yaml").write_text(SITE.format(*free_ports(4)))
    with where() as (ours, its):
        inode = os.fstat(its)
        with subprocess.Popen(
            [TREE / "bicast", "run", "gateway.yaml"],
            cwd=tmp_path,
            env={**os.environ, "JOURNAL_STREAM": f"{inode.st_dev}:{inode.st_ino + (not journal)}"},
            stderr=its,
        ) as run:
            os.close(its)
            said = ""
            while "listening for switches" not in said and (piece := os.read(ours, 1 << 16)):
                said += piece.decode()
            run.send_signal(signal.SIGTERM)
        assert run.returncode == 0, said
    lines = said.splitlines()
    assert len(lines) >= 2 and all(re.fullmatch(form, line) for line in lines), said
