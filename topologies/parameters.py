"""What `mn --topo NAME,parameter=value` gave a topology: a parameter that it has not is refused, not passed over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def refuse_unknown(unknown: Mapping[str, object], known: Iterable[str]) -> None:
    if unknown:
        raise ValueError(f"there is no parameter {', '.join(unknown)}: expected {', '.join(known)}")
