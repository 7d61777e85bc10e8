# SPDX-License-Identifier: Apache-2.0
"""Comments are plain: docstrings open with a subject or a verb, sentences are short, and idioms are absent."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import PurePath

import pytest

from setup.only_words import TOKEN
from tests.docs.pages import TREE

GENERATED = re.compile(r"_pb2|\.pb\.go$")
OPENINGS = re.compile(r"(?:What|Of|By|Who|Whose|Whom|Those|Than|None|As|Which|Whether|That|Where)\b(?!:)")
IDIOMS = re.compile(
    r"\b(?:oftener|wholly|whoever|whatever (?:is|was|are|comes|goes|has|it)|anew|lately|of late|sought|whereof"
    r"|for want of|in vain|whom|it is so"
    r"|nobody (?:tells|knows|hears)|(?:is|are|was|were) told|sees? to it)\b",
    re.IGNORECASE,
)
LONGEST_WORDS = 30
Comment = tuple[int, str, bool]  # line, text, and whether it is a docstring


def comments(name: str) -> Iterator[Comment]:
    source = (TREE / name).read_text(encoding="utf-8")
    if PurePath(name).suffix == ".py":
        yield from _python(source)
        return
    block: list[str] = []
    begins = 0
    for number, line in enumerate(source.splitlines(), start=1):
        match = re.match(r"\s*//(.*)", line)
        if match:
            begins = begins if block else number
            block.append(match.group(1).removeprefix(" "))
        elif block:
            yield begins, "\n".join(block), False
            block = []
    for match in TOKEN.finditer(source):
        if match.lastgroup == "comment" and match.group().startswith("/*"):
            text = re.sub(r"^\s*\* ?", "", match.group()[2:-2], flags=re.MULTILINE)
            yield source.count("\n", 0, match.start()) + 1, text, False


def _python(source: str) -> Iterator[Comment]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield getattr(node, "lineno", 1), docstring, True
    block: list[str] = []
    begins, last = 0, 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            alone = not token.line[: token.start[1]].strip()
            if block and not (alone and token.start[0] == last + 1):
                yield begins, "\n".join(block), False
                block = []
            begins, last = (begins if block else token.start[0]), token.start[0]
            block.append(token.string.removeprefix("#").removeprefix(" "))
    if block:
        yield begins, "\n".join(block), False


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a comment. Drawings, tables and commands have none."""
    prose = re.sub(r"^(?: {2,}|\t|.*\S {2,}\S|.*[─│►▼┌└|]).*$", "", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", prose):
        yield from re.split(r"(?<=[.!?:;])\s+", " ".join(paragraph.split()))


def faults(name: str) -> Iterator[str]:
    for line, text, is_docstring in comments(name):
        if "SPDX" in text:
            continue
        if is_docstring and OPENINGS.match(text):
            yield f"{name}:{line}: a docstring opens with {text.split()[0]!r}, expected a subject or a verb"
        if idiom := IDIOMS.search(text):
            yield f"{name}:{line}: {idiom.group()!r} is no word that engineers use"
        for sentence in sentences(text):
            if len(sentence.split()) > LONGEST_WORDS:
                yield f"{name}:{line}: {len(sentence.split())} words, expected at most {LONGEST_WORDS}: {sentence}"


def folders() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in subprocess.run(
        ["git", "-C", str(TREE), "ls-files"], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        path = PurePath(name)
        if path.suffix in (".py", ".go", ".c", ".h") and len(path.parts) > 1 and not GENERATED.search(name):
            found.setdefault(path.parts[0], []).append(name)
    return found


@pytest.mark.parametrize("folder", sorted(folders()))
def test_comments_are_plain(folder: str) -> None:
    found = [fault for name in folders()[folder] for fault in faults(name)]
    assert not found, "\n".join(found)
