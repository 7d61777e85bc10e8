# SPDX-License-Identifier: Apache-2.0
"""A thread of the controller that fails ends the process with a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
BEGIN = """
import sys, threading, time
from controller import __main__ as controller

def fail():
    raise ArithmeticError("of a test")

def serve(path):
    threading.Thread(target={target}, name="core", daemon=True).start()
    time.sleep(600)

controller._serve = serve
sys.exit(controller.run("gateway.yaml"))
"""


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("fail", "core failed; the switches keep forwarding"),
        ("lambda: threading.Thread(target=fail).start()", "failed; the switches keep forwarding"),
    ],
    ids=["the core", "a thread that it began"],
)
def test_failing_thread_ends_the_process_with_a_traceback(target: str, said: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BEGIN.format(target=target)], cwd=TREE, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 70, ended.stderr
    assert said in ended.stderr and "Traceback" in ended.stderr and "ArithmeticError: of a test" in ended.stderr
