"""Wishes granted: the core at one moment and what people ask of it in, an answer and effects out.

What a wish comes to is told by modes.py, actives.py and relaying/wishes.py; here it begins to count, at gateways and
agents at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller import actives, modes
from controller.bridge.moves import follow, groups_modified
from controller.core import Core, Outcome
from controller.events import Effect
from controller.known import Wanted
from controller.model import AUTO, Mode, Site
from controller.modes import Placed
from controller.relaying.wishes import WishOfRelays
from controller.steering.logbook import Entry, Moved
from controller.wishes import Answer, named


def mode(
    core: Core, name: str, wished: Mode | None, now: float, traffic: str | None = None
) -> tuple[Answer, list[Outcome]]:
    """`traffic` is the name of a class."""
    terminals = named(core.config.sites, name)
    if traffic is not None:
        terminals = modes.having(terminals, traffic)
    wanted, said = modes.wished(core.wanted, terminals, traffic, wished)
    return _granted(core, wanted, terminals, tuple(each + _when(core, site) for site, each in said), [], now)


def active(core: Core, name: str, uplink: str, now: float) -> tuple[Answer, list[Outcome], list[Entry]]:
    """The entries tell what agents make of it, when they have answered."""
    terminals = named(core.config.sites, name)
    if uplink == AUTO:
        done = actives.left_to_policies(core.wanted, core.pilot, terminals, now)
    else:
        done = actives.wished(core.wanted, core.pilot, terminals, uplink, now)
    said = tuple(each + _when(core, site) for (site, _), each in done.said)
    answer, effects = _granted(core, done.wanted, done.moved, said, done.entries, now)
    return answer, effects, done.entries


def of_relays(core: Core, wish: WishOfRelays, now: float) -> tuple[Answer, list[Outcome]]:
    """Or Impossible, or UnknownRelay, and nothing has changed."""
    wanted, said = wish(core.config, core.wanted, core.relaying.carries)
    changed = core.want(wanted)
    done = said if changed else f"{said}, as it was already"
    return Answer((done,), changed, 0), list(core.relaying.tend(core.wanted, now))


def unconfirmed(core: Core, name: str) -> list[tuple[str, Moved]]:
    """Gateways that have not answered yet what followed from a wish for this terminal, by name."""
    switches = [core.switches[dpid] for dpid in _gateways(core, named(core.config.sites, name))]
    orders = ((each.site.name, core.pilot.logbook.unconfirmed(each.session)) for each in switches)
    return [(gateway, moved) for gateway, moved in orders if moved is not None]


def _granted(
    core: Core, wanted: Wanted, terminals: list[Placed], said: tuple[str, ...], entries: list[Entry], now: float
) -> tuple[Answer, list[Outcome]]:
    learned: list[Outcome] = list(core.rest(now))  # its messages are not the wish's
    changed = core.want(wanted)
    effects: list[Effect] = []
    for dpid in _gateways(core, terminals):
        ours = [entry for entry in entries if core.pilot.steered[entry.terminal].site.dpid == dpid]
        effects += follow(core.switches[dpid], ours, core.wanted, core.pilot.logbook, now)
    orders = [order for entry in entries for order in core.pilot.moved(entry, core.wanted, now)]
    core.pilot.touch(terminal.name for _, terminal in terminals)
    tended = list(core.pilot.tend(core.wanted, now))
    return Answer(said, changed, groups_modified(effects)), [*learned, *effects, *orders, *tended]


def _gateways(core: Core, terminals: list[Placed]) -> Iterable[int]:
    return dict.fromkeys(dpid for site, _ in terminals for dpid in core.config.ends(site))


def _when(core: Core, site: Site) -> str:
    switch = core.switches[site.dpid]
    if switch.expected() is not None:
        return ""
    comes = "connects" if switch.session is None else "has been read"
    return f"; it is kept, and counts when gateway {site.name} {comes}"
