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
        if site.relaying:
            yield from _of_relaying(site)


def _of_relaying(site: Site) -> Iterator[str]:
    relayed = [terminal for terminal in site.terminals if terminal.relayed]
    if not relayed:
        yield f"sites.{site.name}.relaying: no terminal is relayed (`relayed: true`), so nothing goes by relays"
    copied = [terminal.name for terminal in relayed if terminal.mode in WITH_COPIES]
    if copied and site.other_end is None:
        yield (
            f"sites.{site.name}.terminals: of {', '.join(copied)} copies are made on the way to relays, and no site is "
            "the other end: where each uplink has a NAT of its own, relays answer those with resets; leave `mode` out "
            "then (docs/relay.md)"
        )
