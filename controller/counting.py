"""Numbers of things in sentences for people: one is singular."""

from __future__ import annotations


def counted(number: int, things: str) -> str:
    """`things` are many, named by an English plural in -s."""
    return f"{number} {things.removesuffix('s') if number == 1 else things}"
