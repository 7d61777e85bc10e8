# SPDX-License-Identifier: Apache-2.0
"""The settings in force: overrides first, then decisions, then gateway.yaml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controller.model.config import Mode, Site, Terminal
from controller.model.decisions import Decisions
from controller.model.observed import Observed
from controller.model.overrides import Overrides
from controller.model.redundancy import BY_MODE, COPIES, NONE, Redundancy
from controller.model.traffic import TrafficClass


@dataclass(frozen=True, slots=True)
class InForce:
    overrides: Overrides = field(default_factory=Overrides)
    decisions: Decisions = field(default_factory=Decisions)

    def redundancy(self, site: Site, terminal: Terminal, traffic: str | None = None) -> Redundancy:
        """Return the redundancy of a named class, or of traffic in no named class.

        It is none if no uplink may carry copies.
        """
        mode = self.overrides.mode(terminal) if traffic is None else self.overrides.mode_of(terminal, traffic)
        if mode is Mode.AUTO:
            its = COPIES if self.decisions.copies.get(terminal.name, True) else NONE
        else:
            its = BY_MODE[mode]
        return NONE if its.spends and not self.may_copy(site, terminal) else its

    def of_classes(self, site: Site, terminal: Terminal, named: Iterable[TrafficClass]) -> tuple[Redundancy, ...]:
        """Return the redundancy of each named class and, last, of traffic in none of them."""
        names = (*(each.name for each in named), None)
        return tuple([self.redundancy(site, terminal, name) for name in names])

    def keeps_apart(self, site: Site, terminal: Terminal) -> bool:
        """Return whether relayed subflows keep their own uplinks: a NAT there may know no other address."""
        return terminal.relayed and site.other_end is None and self.overrides.mode(terminal) is Mode.SINGLE

    def may_copy(self, site: Site, terminal: Terminal) -> bool:
        barred = self.decisions.barred.get(site.home)
        if not barred:
            return True
        active = self.active_uplink(site, terminal)
        return any(uplink.name not in barred for uplink in site.uplinks if uplink.name != active)

    def active_uplink(self, site: Site, terminal: Terminal) -> str:
        """Return the override, the decision or the default. An override waits for its uplink to be in the file."""
        return self.standing(site, terminal) or terminal.default_uplink

    def wished(self, site: Site, terminal: Terminal) -> str | None:
        return _there(site, self.overrides.active.get(terminal.name))

    def standing(self, site: Site, terminal: Terminal) -> str | None:
        """Return the uplink that a person or a policy has chosen, or None."""
        return self.wished(site, terminal) or _there(site, self.decisions.active.get(terminal.name))


def _there(site: Site, name: str | None) -> str | None:
    for uplink in site.uplinks:
        if uplink.name == name:
            return name
    return None


@dataclass(frozen=True, slots=True)
class CopyRateLimit:
    """The rate limit that keeps a budget until the next reading."""

    kbps: int  # 1000 bit/s
    burst_kbits: int


@dataclass(frozen=True, slots=True)
class Known:
    in_force: InForce = field(default_factory=InForce)
    observed: Observed = field(default_factory=Observed)
    screened: frozenset[str] = frozenset()  # no copies arrive at their other end
    rates: Mapping[str, CopyRateLimit] = field(default_factory=dict)  # by uplink with a budget
