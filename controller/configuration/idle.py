"""What stands in a good file and nothing makes use of: no mistake, and most often a line that was forgotten."""

from __future__ import annotations

from collections.abc import Iterator

from controller.model import Config


def idle(config: Config) -> Iterator[str]:
    for site in config.sites:
        joined = {terminal.access_point for terminal in site.terminals}
        for one in site.access_points:
            if one.name not in joined:
                at = f"sites.{site.name}.access_points.{one.name}"
                yield f"{at}: no terminal names it (`access_point: {one.name}`), so it bounds nobody"
        if site.relaying and not any(terminal.relayed for terminal in site.terminals):
            yield f"sites.{site.name}.relaying: no terminal is relayed (`relayed: true`), so nothing goes by relays"
