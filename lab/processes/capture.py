# SPDX-License-Identifier: Apache-2.0
"""Capture packets with tcpdump."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine


@contextmanager
def captured(machine: Machine, file: Path, packets: str, snapped_bytes: int, *options: str) -> Iterator[None]:
    """`packets` is a tcpdump expression.

    tcpdump's default ring holds only eight full packets, so packets are snapped. A missed packet raises
    ExperimentFailed: the file then proves nothing.
    """
    words = ["tcpdump", "-n", "-s", str(snapped_bytes), "-Z", "root", "-w", str(file), *options, packets]
    process = machine.popen(words, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    try:
        output = process.stderr.readline()
        while "listening on" not in output:
            if not output:
                raise ExperimentFailed(f"{machine.name}: `{' '.join(words)}` ended with {process.wait()}")
            output = process.stderr.readline()
        yield
    finally:
        process.terminate()
        _, counted = process.communicate()
    if "\n0 packets dropped by kernel" not in counted:
        raise ExperimentFailed(
            f"{machine.name}: `{' '.join(words)}` missed packets, so its capture proves nothing: {counted.strip()}"
        )
