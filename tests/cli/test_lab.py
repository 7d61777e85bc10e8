# SPDX-License-Identifier: Apache-2.0
"""A killed lab removes its API token, and only its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

PATIENCE_S = 60.0
KILLED = """
import os, signal, sys
from pathlib import Path
from cli import lab
lab.api_token.DIRECTORY = Path(sys.argv[1])
with lab._kept("secret"):
    (file,) = Path(sys.argv[1]).iterdir()
    assert file.read_text().strip() == "secret"
    file.write_text(sys.argv[2])
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_lab(directory: Path, then_in_it: str) -> Path:
    """Start a lab, overwrite the file of its token and kill it. Return the file."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(directory), then_in_it], check=False)
    assert done.returncode == -signal.SIGKILL
    return directory / "api-8653.token"


def test_a_killed_lab_leaves_no_token(tmp_path: Path) -> None:
    file = killed_lab(tmp_path, "secret\n")
    deadline = time.monotonic() + PATIENCE_S
    while file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_killed_lab_leaves_the_token_of_another_lab(tmp_path: Path) -> None:
    file = killed_lab(tmp_path, "another\n")
    while subprocess.run(["pgrep", "-f", str(tmp_path)], check=False, stdout=subprocess.DEVNULL).returncode == 0:
        time.sleep(0.01)
    assert file.read_text() == "another\n"
