# SPDX-License-Identifier: Apache-2.0
"""Counted nouns and shortened texts in sentences for people."""

from __future__ import annotations


def counted(number: int, things: str) -> str:
    """`things` are many, named by an English plural in -s."""
    return f"{number} {things.removesuffix('s') if number == 1 else things}"


CUT = " …"


def shortened(text: str, most: int) -> str:
    """At most so many characters."""
    if len(text) <= most:
        return text
    room = most - len(CUT)
    whole = text[: room + 1].rpartition(" ")[0].rstrip(" ,;:")
    if len(whole) < room // 2:  # a word as long as that is no word
        whole = text[:room]
    return whole + CUT
