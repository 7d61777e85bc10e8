# SPDX-License-Identifier: Apache-2.0
"""The state that checks read, each part once."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cached_property

from controller.model.config import Config, Site
from gateway import bridge, links, tls
from gateway.host import HostError
from gateway.links import Link
from gateway.step import HostState
from gateway.tls import Files


class CheckContext:
    def __init__(self, file: str | None = None, config: Config | None = None, sites: tuple[Site, ...] = ()) -> None:
        self.file = file
        self.config = config
        self.sites = sites

    @cached_property
    def links(self) -> Mapping[str, Link]:
        return {link.name: link for link in links.read()}

    @cached_property
    def seen(self) -> HostState:
        return bridge.look(self.sites)

    @cached_property
    def files(self) -> Files | None:
        if self.config is None or self.config.settings.tls is None:
            return None
        try:
            ovs = self.seen.ovs
        except HostError:  # reported by another check
            ovs = None
        return tls.files(self.config.settings.tls, self.config, self.sites, ovs)

    @property
    def ports(self) -> tuple[str, ...]:
        names = dict.fromkeys(name for site in self.sites for name in site.ports)
        return tuple(name for name in names if name in self.links)

    @property
    def prepare(self) -> str:
        some = self.config is not None and self.sites != self.config.sites
        words = [word for site in self.sites for word in ("--site", site.name)] if some else []
        return shlex.join(["./bicast", "bridge", self.file or "FILE", *words])
