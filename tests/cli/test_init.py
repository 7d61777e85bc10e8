# SPDX-License-Identifier: Apache-2.0
"""`init` and `uninstall` explain themselves, and ask only at a terminal."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import cast

import pytest

from cli import REFUSED, USAGE, init
from cli.__main__ import main
from gateway.init.facts import Ambiguous, HomeFacts
from gateway.init.home import HomeInit
from tests.cli.conftest import Printed

WORD = f"203.0.113.9:8654/{'A' * 32}.{'A' * 52}"
DEVICES = ("enp3s0", "enp4s0")


class AmbiguousHome:
    """A home with two devices that can be its LAN."""

    def choose(self, uplinks: Sequence[str], lan: str | None) -> HomeFacts:
        if lan is None:
            raise Ambiguous("several devices can be the LAN: name one with --lan DEVICE", DEVICES)
        return HomeFacts((("fibre", "enp1s0"),), lan, "192.168.8.1/24", "system")


def chosen() -> HomeFacts:
    return init._chosen(cast(HomeInit, AmbiguousHome()), argparse.Namespace(uplink=[], lan=None))


def test_init_asks_for_the_lan_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or " enp4s0\n")
    assert chosen().lan == "enp4s0"
    assert asked == ["Which device is the LAN (enp3s0, enp4s0)? "]


def test_init_names_the_option_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(Ambiguous, match="--lan DEVICE"):
        chosen()


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["init", "--far", "--lan", "enp3s0"], USAGE, "belong to home"),
        (["init", WORD, "--address", "203.0.113.9"], USAGE, "belong to the rented machine"),
        (["init", "203.0.113.9"], REFUSED, "is no invitation: expected one such as"),
    ],
)
def test_init_says_what_is_wrong(
    words: list[str], code: int, why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert main(words) == code
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("words", [["init"], ["init", "--far", WORD], ["init", "--far", "--undo"]])
def test_init_takes_one_of_its_three_forms(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == USAGE


@pytest.mark.parametrize("words", [["uninstall"], ["init", "--undo"], ["uninstall", "--dry-run"]])
def test_uninstall_changes_nothing_on_a_bare_machine(
    words: list[str], printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert "nothing to remove" in printed(*words)
