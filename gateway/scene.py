"""What the checks look at, each part read once and only when a check asks for it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from controller.model import Config, Site
from gateway import bridge, links
from gateway.links import Link
from gateway.step import Seen


class Scene:
    def __init__(self, file: str | None = None, config: Config | None = None, sites: tuple[Site, ...] = ()) -> None:
        self.file = file
        self.config = config
        self.sites = sites

    @cached_property
    def links(self) -> Mapping[str, Link]:
        return {link.name: link for link in links.read()}

    @cached_property
    def seen(self) -> Seen:
        return bridge.look(self.sites)

    @property
    def ports(self) -> tuple[str, ...]:
        """The sites' ports that are interfaces of this host."""
        names = dict.fromkeys(name for site in self.sites for name in site.ports)
        return tuple(name for name in names if name in self.links)

    @property
    def prepare(self) -> str:
        """The line that prepares the bridges again."""
        return f"./bicast bridge {shlex.quote(self.file or 'FILE')}"


def sysctl(name: str) -> str | None:
    """None: this kernel has no such switch. An interface's name may have dots: write its parts with slashes."""
    path = Path("/proc/sys", name if "/" in name else name.replace(".", "/"))
    return path.read_text().strip() if path.exists() else None
