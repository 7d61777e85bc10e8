"""What a good file says that most often was not meant so: a line forgotten, copies that nobody can tell apart."""

from __future__ import annotations

from collections.abc import Iterator

from controller.model import Config, Mode, Site

WITH_COPIES = (Mode.BICAST, Mode.AUTO)


def remarks(config: Config) -> Iterator[str]:
    for site in config.sites:
        joined = {terminal.access_point for terminal in site.terminals}
        for one in site.access_points:
            if one.name not in joined:
                at = f"sites.{site.name}.access_points.{one.name}"
                yield f"{at}: no terminal names it (`access_point: {one.name}`), so it bounds nobody"
        if site.relaying and not any(terminal.relayed for terminal in site.terminals):
            yield f"sites.{site.name}.relaying: no terminal is relayed (`relayed: true`), so nothing goes by relays"
        if site.other_end is None and len(site.uplinks) > 1:
            yield _of_copies(site)


def _of_copies(site: Site) -> str:
    """Return what comes of modes where nobody at the other end lets the first of several copies pass."""
    copied = [each.name for each in site.terminals if {each.mode, *dict(each.modes).values()} & set(WITH_COPIES)]
    if not copied:
        return (
            f"sites.{site.name}: nothing is copied, as no site mirrors it: terminals without `mode` are in mode single "
            "(docs/home-gateway.md)"
        )
    return (
        f"sites.{site.name}.terminals: packets of {', '.join(copied)} are copied, and no site mirrors {site.name}: "
        "where each uplink has a NAT of its own, servers and relays answer copies with resets; leave `mode` out then "
        "(docs/home-gateway.md)"
    )
