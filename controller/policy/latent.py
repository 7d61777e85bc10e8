"""An uplink whose copies have stopped coming while the others' flow on: nobody has lost anything yet, and one more
death would lose all (latent errors of IEEE 802.1CB, section 7.4.4).

Told at the end where copies come in, from what each uplink has brought. Nothing is concluded while the other end does
not copy everything, nor from a handful of packets, which may be nobody's copies: for a gateway's own address, say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.counting import counted

SILENT_FOR_S = 0.9  # a whole period between reports, each of which may come a little early
ENOUGH_PACKETS = 10  # that others brought meanwhile


@dataclass(frozen=True, slots=True)
class Uplink:
    """What it has brought, and what the others have since it last brought anything."""

    brought: int
    since: float  # it brought something, or nothing could be concluded
    others: int = 0
    silent: str | None = None  # why it is taken to be; None: it is not


@dataclass(frozen=True, slots=True)
class Site:
    """Its uplinks, by name; a new one is made with every report."""

    uplinks: Mapping[str, Uplink] = field(default_factory=dict)
    all_is_copied: bool = False  # when it was last told of: what came since the report before may not have been

    @property
    def silent(self) -> dict[str, str]:
        """Uplinks, and why."""
        return {name: one.silent for name, one in self.uplinks.items() if one.silent is not None}


def reported(site: Site, brought: Mapping[str, int], all_is_copied: bool, now: float) -> Site:
    """`brought` counts up from the order on; what is less than before has begun anew."""
    known = site.uplinks
    begun = known.keys() != brought.keys() or any(brought[name] < one.brought for name, one in known.items())
    if begun or not (all_is_copied and site.all_is_copied):
        return Site({name: Uplink(count, now) for name, count in brought.items()}, all_is_copied)
    more = {name: brought[name] - one.brought for name, one in known.items()}
    others = {name: sum(more.values()) - count for name, count in more.items()}
    return Site(
        {
            name: Uplink(brought[name], now) if more[name] else _silent(one, others[name], now)
            for name, one in known.items()
        },
        all_is_copied,
    )


def _silent(one: Uplink, others: int, now: float) -> Uplink:
    total, for_s, silent = one.others + others, now - one.since, one.silent
    if for_s >= SILENT_FOR_S and total >= ENOUGH_PACKETS:
        silent = f"it brings no copies: none for {for_s:.1f} s, while {counted(total, 'packets')} came otherwise"
    return Uplink(one.brought, one.since, total, silent)
