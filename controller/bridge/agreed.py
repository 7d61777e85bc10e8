"""A switch that is read again and again, and found as it shall be, is not compared anew each time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from controller.program import EMPTY, Program

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Agreed:
    """A program as it was read, and the compiled one that it was equal to."""

    read: Program = EMPTY
    meant: Program = EMPTY

    def recognised(self, read: Program) -> Program:
        """With the compiled value for each that is the very one of then (wire/reading.py keeps them): that thousands of
        them still are equal is seen by identity, not field by field."""
        return replace(
            read,
            flows=_recognised(read.flows, self.read.flows, self.meant.flows),
            groups=_recognised(read.groups, self.read.groups, self.meant.groups),
        )


def _recognised(found: Mapping[K, V], before: Mapping[K, V], meant: Mapping[K, V]) -> dict[K, V]:
    return {key: meant[key] if before.get(key) is value else value for key, value in found.items()}
