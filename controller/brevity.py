"""Long texts made short for people: they end behind a word, and are seen not to be whole."""

from __future__ import annotations

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
