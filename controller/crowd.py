"""Which of too many strangers makes place for a newcomer: the oldest one of the host that has most of them.

Who is ours is known within a few round trips, long before its turn; and a host alone crowds out itself alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol, TypeVar


class Stranger(Protocol):
    @property
    def host(self) -> str: ...


T = TypeVar("T", bound=Stranger)


def superfluous(strangers: Sequence[T], most: int) -> T | None:
    """`strangers` are in the order in which they came. None: they are not too many."""
    if len(strangers) <= most:
        return None
    of_each = Counter(stranger.host for stranger in strangers)
    return max(strangers, key=lambda stranger: of_each[stranger.host])  # the first of the hosts that have most
