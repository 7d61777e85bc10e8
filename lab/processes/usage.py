# SPDX-License-Identifier: Apache-2.0
"""Read a process's resource usage from the kernel."""

from __future__ import annotations

import os
from pathlib import Path

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Return the processor time of all threads, user and system."""
    return sum(ticks(pid)[:2]) / TICKS_A_SECOND


def ticks(pid: int) -> list[int]:
    """Return clock ticks: user, system, and both for ended children."""
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return [int(word) for word in words[11:15]]


def resident_mb(pid: int) -> float:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024 / 1e6


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
