"""By which uplinks the packets of a terminal's address leave, class by class: a group for each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, repeat

from controller.model import Mode, Uplink
from controller.program import Action, Bucket, Group, GroupKind
from controller.tables.served import Answered, Served

ROUTE, LEAVE = 1, 2  # the tables in which it is found out that they leave, and in which they are led there
MOST_KEPT = 1 << 15  # addresses whose groups are remembered: most often all but one stay as they were


@dataclass(frozen=True, slots=True)
class Path:
    """An uplink that can carry a family: its port is there and its next hop's MAC is known."""

    uplink: Uplink
    up: bool
    screened: bool
    port: int
    actions: tuple[Action, ...]
    copied: tuple[Action, ...]  # of what leaves by another one too
    barred: bool = False  # its copies have used up what they may


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Those of one family, in one state of the uplinks. Of equal ones there is one: it is compared by identity."""

    usable: tuple[Path, ...]


@lru_cache(maxsize=1024)
def paths(*usable: Path) -> Paths:
    return Paths(usable)


@lru_cache(maxsize=MOST_KEPT)
def leaving(
    each: Served | Answered, named: tuple[Mode, ...], mode: Mode, own: str, active: str, paths: Paths
) -> tuple[Group, ...]:
    """`named` are the modes of classes that have names; they come first, then the bicast class, then the rest. `own` is
    the uplink in mode off."""
    groups: list[Group] = []
    for (_, name), its in zip(each.leaving, chain(named, repeat(mode)), strict=False):
        copied = len(groups) <= len(named)
        kind, buckets = _way(its, own if its is Mode.OFF else active, paths, copied)
        groups.append(Group(name.group_id, kind, buckets, name.label))
    return tuple(groups)


@lru_cache(maxsize=1024)
def _way(mode: Mode, active: str, paths: Paths, copied: bool) -> tuple[GroupKind, tuple[Bucket, ...]]:
    if mode is Mode.OFF:
        own = (path for path in paths.usable if path.uplink.name == active and path.up)
        return GroupKind.ALL, tuple(Bucket(path.actions) for path in own)
    if mode is Mode.BICAST and copied:
        up = [path for path in paths.usable if path.up]
        of_use = [path for path in up if not path.screened] or up
        paid = [path for path in of_use if not path.barred or path.uplink.name == active]
        if len(paid) > 1 or len(paid) == len(of_use):
            return GroupKind.ALL, _copies(paid, active)
    # A port that is down keeps its bucket here: the switch itself passes over it, and takes it again
    # when it is back, with no controller alive.
    in_order = sorted(paths.usable, key=lambda path: (path.screened, path.uplink.name != active))
    return GroupKind.FAST_FAILOVER, tuple(Bucket(path.actions, watch_port=path.port) for path in in_order)


def _copies(paths: list[Path], active: str) -> tuple[Bucket, ...]:
    """One of them is no copy: the active one, while it can be used. What is metered leaves last."""
    if all(path.copied is path.actions for path in paths):
        return tuple(Bucket(path.actions) for path in paths)
    first, *others = sorted(paths, key=lambda path: (path.uplink.name != active, path.copied is not path.actions))
    return (Bucket(first.actions), *(Bucket(path.copied) for path in others))
