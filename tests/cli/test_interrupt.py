# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at any moment ends a command with exit code 130 and no traceback."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.stage.isolate import MARK

TREE = Path(__file__).resolve().parent.parent.parent
ENDED_BY_IT = (130, -signal.SIGINT)  # Python's own exit code, or death by the signal: a shell shows 130 for both

VERB = """
import os, signal
from cli import Failure
def _interrupt(when):
    if when == os.environ["WHEN"]:
        os.kill(os.getpid(), signal.SIGINT)
_interrupt("imported")
def add(subparsers):
    subparsers.add_parser("status")
    _interrupt("described")
def run(args):
    _interrupt("running")
    raise Failure("it went on")
"""


@pytest.mark.parametrize("when", ["imported", "described", "running"])
def test_an_interrupted_verb_ends_silently(tmp_path: Path, when: str) -> None:
    (tmp_path / "interrupted.py").write_text(VERB)
    script = (
        "from cli import __main__ as m; m.VERBS['status'] = ('interrupted', ''); raise SystemExit(m.main(['status']))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": f"{TREE}:{tmp_path}", "WHEN": when},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "")


@pytest.mark.parametrize("words", [["status"], pytest.param(["run", "none.yaml"], marks=pytest.mark.slow)])
def test_ctrl_c_never_shows_a_traceback(words: list[str]) -> None:
    codes = set()
    for step in range(12):
        with subprocess.Popen(
            [str(TREE / "bicast"), *words],
            env={**os.environ, "BICAST_API": "127.0.0.1:1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as command:
            time.sleep(step * 0.04)  # the test varies this moment
            os.killpg(command.pid, signal.SIGINT)
            _, said = command.communicate(timeout=60)
        codes.add(command.returncode)
        assert said == "" or (said.startswith("bicast: ") and said.count("\n") == 1), "its own sentence, or nothing"
        assert said or command.returncode in ENDED_BY_IT
    assert codes & set(ENDED_BY_IT)


SWALLOWS = """
import os, signal, time
from cli.interrupt import heard_everywhere

heard_everywhere()
os.register_at_fork(after_in_parent=lambda: signal.raise_signal(signal.SIGINT))
if os.fork() == 0:
    os._exit(0)
time.sleep(60)
"""


def test_an_interrupt_at_a_fork_is_delivered_afterwards() -> None:
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", SWALLOWS], cwd=TREE, capture_output=True, text=True, timeout=60)
    assert done.stderr.endswith("KeyboardInterrupt\n") and done.returncode in ENDED_BY_IT
    assert "Exception ignored" not in done.stderr
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("after_s", [0.15, 0.4, 0.7, 1.1])
def test_a_starting_lab_ends_without_traceback_on_ctrl_c(after_s: float) -> None:
    outside = {name: value for name, value in os.environ.items() if name != MARK}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.execve(TREE / "bicast", ["bicast", "lab"], outside)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    time.sleep(after_s)  # the test varies this moment
    os.write(terminal, b"\x03")
    said = b""
    with contextlib.suppress(OSError):  # EIO: the last process with the terminal has ended
        while select.select([terminal], [], [], 60)[0]:
            said += os.read(terminal, 65536)
        os.kill(pid, signal.SIGKILL)  # it ignored the interrupt
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) in ENDED_BY_IT
    assert b"Traceback" not in said
