# SPDX-License-Identifier: Apache-2.0
"""setup/only_words.py passes commits that change words, and no others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from setup import only_words

PYTHON = '''\
"""Of what is counted."""

LEAST = 3  # of them


def told(one: int, other: int) -> str:
    """What is said."""
    name = "wifi"
    if one > LEAST:
        raise ValueError(f"{name} has {one} of {other}")
    return name
'''
GO = """\
package a

// stand sees to it.
func stand(who peer) error {
	return fmt.Errorf("%s is not heard", who.told)
}
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with one commit."""
    (tmp_path / "a.py").write_text(PYTHON)
    (tmp_path / "a.go").write_text(GO)
    (tmp_path / "a.sh").write_text("# Says it.\necho one # more\n")
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    monkeypatch.setattr(only_words, "TREE", tmp_path)
    monkeypatch.setattr(only_words, "UPGRADING", tmp_path / "upgrading.md")
    return tmp_path


def differs(tree: Path, name: str, *changes: tuple[str, str]) -> bool:
    text = (tree / name).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (tree / name).write_text(text)
    return bool(only_words.main("HEAD"))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("a.py", [('"""What is said."""', '"""Return a name.\n\n    In plain words.\n    """'), ("  # of them", "")]),
        ("a.py", [("told", "describe"), ("one", "count")]),
        ("a.py", [("{name} has {one} of {other}", "found {one} of {other} packets of {name}")]),
        ("a.go", [("stand sees to it", "attach attaches it"), ("stand", "attach"), ("told", "name")]),
        ("a.sh", [("# Says it.", "# Prints."), (" # more", "")]),
    ],
)
def test_words_may_change(tree: Path, name: str, changes: list[tuple[str, str]]) -> None:
    assert not differs(tree, name, *changes)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("a.py", [("LEAST = 3", "LEAST = 4")]),
        ("a.py", [("one > LEAST", "other > LEAST")]),
        ("a.py", [("one: int", "other: int"), ("other: int) ->", "more: int) ->"), ("one > LEAST", "other > LEAST")]),
        ("a.py", [('"wifi"', '"lte"')]),
        ("a.py", [("{one} of {other}", "{one} of {one}")]),
        ("a.py", [("    return name\n", "")]),
        ("a.go", [("(who peer)", "(name peer)")]),
        ("a.go", [("told)\n", "told, who)\n")]),
        ("a.sh", [("echo one", "echo two")]),
    ],
)
def test_code_may_not_change(tree: Path, name: str, changes: list[tuple[str, str]]) -> None:
    assert differs(tree, name, *changes)


def test_a_listed_key_may_change(tree: Path) -> None:
    (tree / "upgrading.md").write_text("| before | now |\n|---|---|\n| `wifi` | `wlan` |\n")
    assert not differs(tree, "a.py", ('"wifi"', '"wlan"'))
