"""`enroll`, `revoke` and `agents` say what a person needs next."""

from __future__ import annotations

import json

import pytest

from cli import OK, REFUSED
from cli.__main__ import main
from tests.api.front import Front

Captured = pytest.CaptureFixture[str]


def test_enroll_prints_the_line_to_type_on_the_agents_host(api: str, front: Front, capsys: Captured) -> None:
    assert main(["enroll", "tablet"]) == OK
    first, line = capsys.readouterr().out.splitlines()
    assert first.startswith("good once, until ") and first.endswith("; on tablet:")
    assert line == "  bicast-agent join 192.0.2.1:8656 --name tablet --token secret.pin"


def test_enroll_says_what_to_fill_in_where_the_controller_listens_everywhere(
    api: str, front: Front, capsys: Captured
) -> None:
    front.join = ":8656"
    assert main(["enroll", "tablet"]) == OK
    _, line, last = capsys.readouterr().out.splitlines()
    assert line == "  bicast-agent join CONTROLLER:8656 --name tablet --token secret.pin"
    assert last == "where CONTROLLER is an address of this controller that tablet reaches"


def test_revoke_says_what_was_done(api: str, front: Front, capsys: Captured) -> None:
    assert main(["revoke", "phone"]) == OK
    assert capsys.readouterr().out == "phone is revoked\n"
    assert main(["revoke", "phone"]) == OK
    assert capsys.readouterr().out == "phone is already revoked\n"


@pytest.mark.parametrize(("words", "says"), [(["enroll", "No"], "'No'"), (["revoke", "nobody"], "laptop, phone")])
def test_what_cannot_be_is_refused_in_one_sentence(
    api: str, front: Front, words: list[str], says: str, capsys: Captured
) -> None:
    assert main(words) == REFUSED
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("bicast: ") and says in err


def test_agents_lists_who_was_enrolled(api: str, front: Front, capsys: Captured) -> None:
    assert main(["agents"]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["AGENT", "CONNECTED", "FROM", "CERTIFICATE", "UNTIL", "TOKEN", "UNTIL", "REVOKED"]
    assert lines[1].split()[:4] == ["laptop", "-", "-", "-"] and lines[1].split()[4].startswith("2023-11-1")
    assert lines[2].split()[:2] == ["phone", "192.0.2.7:50000"]
    assert main(["agents", "--json"]) == OK
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == ["laptop", "phone"]
