# SPDX-License-Identifier: Apache-2.0
"""`bicast mptcp` runs the agent's command with its output, exit codes and signals."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import cli.mptcp
from cli.__main__ import main


def mptcp(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "cli", "mptcp", *words], capture_output=True, text=True, check=False)


def test_mptcp_passes_arguments_and_exit_codes_through() -> None:
    taught = mptcp("list", "--help")
    assert (taught.returncode, taught.stderr) == (0, "")
    assert taught.stdout.startswith("usage: bicast mptcp list")
    nowhere = mptcp("list", "--json", "--netns", "nowhere")
    assert nowhere.returncode == 12
    assert "/run/netns/nowhere" in nowhere.stderr


def test_mptcp_names_make_setup_when_the_agent_is_not_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli.mptcp, "AGENT", Path("/nowhere/bicast-agent"))
    assert main(["mptcp", "list"]) == 1
    assert "make setup" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN, "the next reader that leaves would end us"
