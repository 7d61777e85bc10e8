"""What a person waits for: ways of which agents have not told yet, and what then is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

Told = TypeVar("Told", covariant=True)


class Answered(Protocol):
    @property
    def answered(self) -> bool: ...


class Walking(Protocol[Told]):
    @property
    def inquiries(self) -> Sequence[Answered]: ...

    def told(self, now: float) -> Told: ...


class Inquiry:
    def __init__(self) -> None:
        self._left: set[tuple[str, str]] = set()  # by agent and address

    def wait_for(self, ways: Iterable[tuple[str, str]]) -> None:
        self._left.update(ways)

    def told(self, who: str, addresses: Iterable[str]) -> None:
        self._left.difference_update((who, address) for address in addresses)

    @property
    def answered(self) -> bool:
        return not self._left
