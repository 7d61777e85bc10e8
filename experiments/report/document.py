# SPDX-License-Identifier: Apache-2.0
"""A document of headings, paragraphs, tables and pictures, as Markdown and as one HTML file.

Texts may have `code`, and [links](to).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from textwrap import fill

WIDTH = 120
HELD = "\0"  # in place of a space inside code, where no line may end
STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 1rem 0; }
th, td { border: 1px solid #8886; padding: .2rem .6rem; text-align: left; vertical-align: top; }
svg { max-width: 100%; height: auto; background: #fff; }
:root { color-scheme: light dark; }
"""
CODE, LINK = re.compile(r"`([^`]+)`"), re.compile(r"\[([^]]+)]\(([^)]+)\)")


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str


@dataclass(frozen=True, slots=True)
class Table:
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    file: str  # relative to the page
    text: str  # what it shows


Block = Heading | Paragraph | Table | Picture


def markdown(blocks: Iterable[Block]) -> str:
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {text}"
        case Paragraph(text):
            whole = CODE.sub(lambda code: code[0].replace(" ", HELD), text)
            return fill(whole, WIDTH, break_long_words=False, break_on_hyphens=False).replace(HELD, " ")
        case Picture(file, text):
            return f"![{text}]({file})"
        case Table(heads, rows):
            lines = [heads, tuple("---" for _ in heads), *rows]
            return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def html(title: str, blocks: Iterable[Block], pictures: Path) -> str:
    """Return a page that needs no other file; `pictures` is the folder that their names begin in."""
    body = "\n".join(_html(block, pictures) for block in blocks)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head><body>\n{body}\n</body></html>\n'


def _html(block: Block, pictures: Path) -> str:
    match block:
        case Heading(level, text):
            return f"<h{level}>{_inline(text)}</h{level}>"
        case Paragraph(text):
            return "" if text.startswith("<!--") else f"<p>{_inline(text)}</p>"
        case Picture(file, text):
            drawn = (pictures / file).read_text(encoding="utf-8")
            return f'<figure role="img" aria-label="{escape(text)}">{drawn[drawn.index("<svg") :]}</figure>'
        case Table(heads, rows):
            body = "\n".join(_row(row, "td") for row in rows)
            return f"<table><thead>{_row(heads, 'th')}</thead><tbody>\n{body}\n</tbody></table>"


def _row(cells: Sequence[str], kind: str) -> str:
    return "<tr>" + "".join(f"<{kind}>{_inline(cell)}</{kind}>" for cell in cells) + "</tr>"


def _inline(text: str) -> str:
    return LINK.sub(r'<a href="\2">\1</a>', CODE.sub(r"<code>\1</code>", escape(text)))
