# SPDX-License-Identifier: Apache-2.0
"""Words for people."""

from __future__ import annotations


def counted(number: int, things: str) -> str:
    """Return a number with its noun, an English plural in -s."""
    return f"{number} {things.removesuffix('s') if number == 1 else things}"


CUT = " …"
LONGEST = 500  # characters of a sentence: a moved connection takes 260, over IPv6 up to 400


def shortened(text: str, most: int) -> str:
    """Return the text, cut between words."""
    if len(text) <= most:
        return text
    room = most - len(CUT)
    whole = text[: room + 1].rpartition(" ")[0].rstrip(" ,;:")
    if len(whole) < room // 2:  # the next word is very long: cut inside it
        whole = text[:room]
    return whole + CUT
