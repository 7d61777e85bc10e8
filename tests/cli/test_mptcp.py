# SPDX-License-Identifier: Apache-2.0
"""`bicast mptcp` is the agent's own command: its output, its exit codes, its signals."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import cli.mptcp
from cli.__main__ import main


def typed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "cli", "mptcp", *words], capture_output=True, text=True, check=False)


def test_words_options_and_exit_codes_reach_the_agent_and_come_back() -> None:
    taught = typed("list", "--help")
    assert (taught.returncode, taught.stderr) == (0, "")
    assert taught.stdout.startswith("usage: bicast mptcp list")
    nowhere = typed("list", "--json", "--netns", "nowhere")
    assert nowhere.returncode == 12
    assert "/run/netns/nowhere" in nowhere.stderr


def test_help_names_every_verb_that_the_agent_has(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["mptcp", "--help"])
    ours = capsys.readouterr().out.split("verbs:\n")[1].split("\n\n")[0]
    theirs = typed("help").stdout.split("verbs:\n")[1].split("\n\n")[0]
    assert [line.split() for line in ours.splitlines()] == [line.split() for line in theirs.splitlines()]


def test_an_agent_that_is_not_built_is_told_with_what_builds_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli.mptcp, "AGENT", Path("/nowhere/bicast-agent"))
    assert main(["mptcp", "list"]) == 1
    assert "make setup" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN, "the next reader that leaves would end us"
