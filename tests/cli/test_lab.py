# SPDX-License-Identifier: Apache-2.0
"""What the lab leaves outside of its own world."""

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


def killed(directory: Path, then_in_it: str) -> Path:
    """A lab that was killed; the file with its token, in which there is another word since."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(directory), then_in_it], check=False)
    assert done.returncode == -signal.SIGKILL
    return directory / "api-8653.token"


def test_a_lab_that_is_killed_leaves_no_token(tmp_path: Path) -> None:
    file = killed(tmp_path, "secret\n")
    deadline = time.monotonic() + PATIENCE_S
    while file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_takes_no_other_one_with_it(tmp_path: Path) -> None:
    file = killed(tmp_path, "another\n")
    while subprocess.run(["pgrep", "-f", str(tmp_path)], check=False, stdout=subprocess.DEVNULL).returncode == 0:
        time.sleep(0.01)
    assert file.read_text() == "another\n"
