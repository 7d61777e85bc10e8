"""Group ids that a terminal keeps when others come and go, and that no foreign group is given.

A position in the file would move every later group when one terminal is taken out; a number drawn from
the group's own name stays. Two names that draw the same number are told apart in the order of their names.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2s

from controller.program import GROUP_IDS


def numbered(names: Iterable[str]) -> dict[str, int]:
    taken: dict[int, str] = {}
    for name in sorted(names):
        drawn = int.from_bytes(blake2s(name.encode(), digest_size=8).digest())
        while (group_id := GROUP_IDS[drawn % len(GROUP_IDS)]) in taken:
            drawn += 1
        taken[group_id] = name
    return {name: group_id for group_id, name in taken.items()}
