# SPDX-License-Identifier: Apache-2.0
"""Check that two commits differ in words alone: comments, texts, and consistent renames.

    .venv/bin/python setup/only_words.py OLD [NEW]      NEW: the working tree, if it is missing

A text is a string with a space. An f-string's values must stay, in any order. A name may become one other name
throughout a function or a class's fields; no two become the same. Any other string may change as the table of names in
docs/upgrading.md lists. Exit code 1 comes with each file's first difference, 0 with the renames of functions, classes,
fields and files.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

TREE = Path(__file__).resolve().parent.parent
UPGRADING = TREE / "docs/upgrading.md"
DOCUMENTS = {".md", ".svg", ".dot"}
QUOTING = "tests/mutants"  # quotes code with its comments; `make mutants` fails on a missing line
TOKENIZED = {".go", ".c", ".h", ".proto"}
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>"(?:\\.|[^"\\\n])*"|`[^`]*`|'(?:\\.|[^'\\\n])+')"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<other>\d[\w.]*|[^\w\s])|(?P<line>\n)""",
    re.DOTALL,
)
OPENS = re.compile(r"(?:func|type|var|const|static|struct|SEC|message|service)\b")
NAMES = re.compile(r"(?<=id=')\w+|(?<=attr=')\w+")
LOCAL = "local name"


@dataclass(frozen=True, slots=True)
class Token:
    kind: str  # "string", "text", or the kind of a name; "": may not change
    value: str
    scope: int  # its function's or class's line
    line: int


class Difference(Exception):
    pass


class Flattened(ast.NodeVisitor):
    """The tokens of a Python module, without docstrings."""

    def __init__(self, source: str, order: Callable[[ast.AST], tuple[str, ...]]) -> None:
        self.tokens: list[Token] = []
        self._order = order  # of the values in a text
        self._scope = self._line = 0
        self._in_function = False
        self.visit(ast.parse(source))

    def visit(self, node: ast.AST) -> None:
        self._line = getattr(node, "lineno", self._line)
        outer, is_class = (self._scope, self._in_function), isinstance(node, ast.ClassDef)
        if is_class or (not self._in_function and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            self._scope, self._in_function = self._line, not is_class
        self._add("", type(node).__name__)
        if isinstance(node, ast.JoinedStr):
            self._joined(node)
        elif isinstance(node, ast.Constant):
            self._constant(node.value)
        else:
            for field, value in ast.iter_fields(node):
                self._field(node, field, _without_docstring(node) if field == "body" else value)
        self._scope, self._in_function = outer

    def _add(self, kind: str, value: str) -> None:
        self.tokens.append(Token(kind, value, self._scope, self._line))

    def _field(self, node: ast.AST, field: str, value: object) -> None:
        values = value if isinstance(value, list) else [value]
        self._add("", f"{field} {len(values)}")
        for each in values:
            if isinstance(each, ast.AST):
                self.visit(each)
            elif isinstance(each, str):
                for part in each.split("."):
                    self._add(_kind(node), part)
            else:
                self._add("", repr(each))

    def _constant(self, value: object) -> None:
        if isinstance(value, str | bytes):
            text = value if isinstance(value, str) else value.decode("latin-1")
            self._add("text" if " " in text else "string", text)
        else:
            self._add("", repr(value))

    def _joined(self, node: ast.JoinedStr) -> None:
        constants = "".join(str(each.value) for each in node.values if isinstance(each, ast.Constant))
        self._add("text" if " " in constants else "string", constants)
        values = [each for each in node.values if isinstance(each, ast.FormattedValue)]
        for each in sorted(values, key=self._order):
            self.visit(each)


def by_shape(node: ast.AST) -> tuple[str, ...]:
    """A rename does not move values that differ in names alone."""
    return (NAMES.sub("", ast.dump(node)),)


def by_name(node: ast.AST) -> tuple[str, ...]:
    """Values that differ in names alone get one order."""
    return (*by_shape(node), ast.dump(node))


def _without_docstring(node: ast.AST) -> list[ast.stmt]:
    body: list[ast.stmt] = getattr(node, "body", [])
    if not isinstance(body, list):  # of a lambda
        return [body]
    return [each for each in body if not _is_docstring(each)]


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _kind(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return "field or method"
    if isinstance(node, ast.keyword):
        return "parameter"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return "function or class"
    if isinstance(node, ast.alias | ast.ImportFrom):
        return "imported name"
    return LOCAL


def tokenized(source: str) -> list[Token]:
    """Return the tokens without comments and without commas that end a broken line."""
    found: list[Token] = []
    line, scope = 1, 0
    at_margin = True
    for match in TOKEN.finditer(source):
        kind, value = str(match.lastgroup), match.group()
        if at_margin and OPENS.match(source, match.start()):
            scope = line
        if kind == "string":
            found.append(Token("text" if " " in value else "string", value, scope, line))
        elif kind == "name":
            found.append(Token(LOCAL, value, scope, line))
        elif kind == "other":
            if value in ")}]" and found and found[-1].value == ",":
                found.pop()
            found.append(Token("", value, scope, line))
        line += value.count("\n")
        at_margin = kind == "line" or (at_margin and kind == "comment")
    return found


def lines(source: str) -> list[Token]:
    kept = (re.sub(r"(^|\s)#(?!!).*", "", each).strip() for each in source.splitlines())
    return [Token("", each, 0, number) for number, each in enumerate(kept, start=1) if each]


def tokens(name: str, source: str, order: Callable[[ast.AST], tuple[str, ...]]) -> list[Token]:
    suffix = PurePath(name).suffix
    if suffix in (".py", ".pyi"):
        return Flattened(source, order).tokens
    return tokenized(source) if suffix in TOKENIZED else lines(source)


class Renames:
    """One file's renames, by function."""

    def __init__(self, listed: dict[str, str]) -> None:
        self._listed = listed
        self._forward: dict[tuple[int, str, str], str] = {}
        self._backward: dict[tuple[int, str, str], str] = {}

    def compare(self, old: Token, new: Token) -> None:
        if old.kind != new.kind and {old.kind, new.kind} != {"text", "string"}:
            raise Difference(f"line {new.line}: found {new.value!r}, expected {old.value!r}")
        if old.kind == new.kind == "text":
            return
        if old.kind in ("", "string", "text"):
            if old.value != new.value and self._listed_as(old.value) != new.value:
                raise Difference(f"line {new.line}: found {new.value!r}, expected {old.value!r}")
            return
        known = self._forward.setdefault((old.scope, old.kind, old.value), new.value)
        if known != new.value:
            raise Difference(f"line {new.line}: {old.value} becomes {new.value}, and {known} elsewhere in the function")
        came_from = self._backward.setdefault((old.scope, old.kind, new.value), old.value)
        if came_from != old.value:
            raise Difference(f"line {new.line}: {old.value} and {came_from} both become {new.value}")

    def _listed_as(self, value: str) -> str:
        return re.sub(r"[\w-]+", lambda match: self._listed.get(match.group(), match.group()), value)

    @property
    def lasting(self) -> Iterator[tuple[str, str]]:
        """Yield the names visible outside of functions."""
        for (scope, kind, old), new in self._forward.items():
            if old != new and (kind != LOCAL or scope == 0):
                yield old, new


def listed() -> dict[str, str]:
    """Return docs/upgrading.md's table."""
    if not UPGRADING.exists():
        return {}
    rows = re.findall(r"^\| `([\w.-]+)` \| `([\w.-]+)` \|", UPGRADING.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(rows)


def git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(TREE), *words], check=True, capture_output=True, text=True).stdout


def changed(old: str, new: str | None) -> Iterator[tuple[str, str, str]]:
    """Yield status, old and new name."""
    for line in git("diff", "--name-status", "-M40%", old, *([new] if new else [])).splitlines():
        status, *names = line.split("\t")
        yield status[0], names[0], names[-1]


def content(commit: str | None, name: str) -> str:
    return git("show", f"{commit}:{name}") if commit else (TREE / name).read_text(encoding="utf-8")


def compared(
    old: tuple[str, str], new: tuple[str, str], order: Callable[[ast.AST], tuple[str, ...]], names: dict[str, str]
) -> list[tuple[str, str]]:
    renames, before, after = Renames(names), tokens(*old, order), tokens(*new, order)
    for was, now in zip(before, after, strict=False):
        renames.compare(was, now)
    if len(before) != len(after):
        raise Difference("the code ends sooner or later than before")
    return list(renames.lasting)


def main(old: str, new: str | None = None) -> int:
    names, table, failed = listed(), set[tuple[str, str]](), False
    for status, before, after in changed(old, new):
        if PurePath(after).suffix in DOCUMENTS or after.startswith(QUOTING):
            continue
        if status in "AD":
            print(f"{after}: the file is {'new' if status == 'A' else 'gone'}")
            failed = True
            continue
        if before != after:
            table.add((before, after))
        pair = (before, content(old, before)), (after, content(new, after))
        try:
            try:
                table.update(compared(*pair, by_shape, names))
            except Difference:
                table.update(compared(*pair, by_name, names))
        except Difference as difference:
            print(f"{after}: {difference}")
            failed = True
    for one, other in sorted(table):
        print(f"{one} -> {other}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
