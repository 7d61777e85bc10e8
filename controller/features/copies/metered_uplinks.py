# SPDX-License-Identifier: Apache-2.0
"""The use of uplinks with limits, counted at both ends and at the interface below a tunnel, and what follows.

readings of switches ──► accounts (policy/copies/budget.py) ──► barred uplinks, and why
reports of interfaces ──┘                           └──► the rate limit of copies
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from controller.agents.agent import Agent
from controller.model.config import Config, Site
from controller.model.decisions import Used
from controller.model.in_force import CopyRateLimit
from controller.model.observed import Port
from controller.model.uplink import UNLIMITED, Uplink
from controller.policy.copies import budget
from controller.policy.copies.budget import Account, CounterReading, Moment
from controller.program.metering import counted
from controller.program.program import Installed, PacketCounters
from controller.protocol.reports import AgentEvent, InterfaceCounters, Reported, Role

Metered = tuple[str, str]  # home and uplink
PARTS = 16  # the rate per second and the burst are this part of the remaining budget, at each end
FASTEST_KBPS = 4_000_000  # a meter's fields have 32 bits, and datapaths count bits


def named(metered: Metered) -> str:
    return "/".join(metered)


class Budgets:
    def __init__(self, config: Config, stored: Mapping[str, Used]) -> None:
        self._stored = stored  # from an earlier run
        self._moment: Moment | None = None
        self._accounts: dict[Metered, Account] = {}
        self._agents: dict[int, str] = {}  # the sites of gateways' agents, by session
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        self._limits = {
            (site.name, uplink.name): uplink.limits
            for site in config.sites
            if site.peer_of is None
            for uplink in site.uplinks
            if uplink.limits != UNLIMITED
        }
        self._below = {
            (site.name, uplink.device): uplink.name
            for site in config.sites
            for uplink in site.uplinks
            if uplink.device and (site.name, uplink.name) in self._limits
        }
        self._stored = {**self._stored, **self.used}
        self._accounts = {}
        if self._moment is not None:
            self.set_time(self._moment)

    # Readings

    def set_time(self, moment: Moment) -> None:
        self._moment = moment
        for at, limits in self._limits.items():
            if at not in self._accounts:
                self._accounts[at] = budget.opened(limits, self._stored.get(named(at)), moment)

    def read(self, site: Site, ports: Mapping[str, Port], installed: Installed) -> None:
        copied = counted(site, installed)
        carried: dict[int, int] = {}
        both_ways: dict[str, int] = {}
        for uplink in site.uplinks:
            port = ports.get(uplink.port)
            counters = installed.port_counters.get(port.number) if port else None
            if port and counters:
                carried[port.number] = _on_the_wire(counters.sent, uplink)
                both_ways[uplink.name] = carried[port.number] + _on_the_wire(counters.received, uplink)
        for uplink in site.uplinks:
            account = self._accounts.get((site.home, uplink.name))
            if account is not None and self._moment is not None:
                reading = CounterReading(
                    f"{site.dpid:016x}", copied.get(uplink.name), carried, both_ways.get(uplink.name)
                )
                self._accounts[site.home, uplink.name] = budget.counted(account, reading, self._moment)

    def on_event(self, event: AgentEvent, agent: Agent) -> None:
        if isinstance(event, Reported) and agent.role is Role.GATEWAY:
            self._reported(agent.name, event.interfaces)  # a site's agent has its name

    def _reported(self, site: str, interfaces: Iterable[InterfaceCounters]) -> None:
        """Count what the interfaces below tunnels have carried."""
        for interface in interfaces:
            uplink = self._below.get((site, interface.name))
            account = self._accounts.get((site, uplink)) if uplink else None
            if uplink and account is not None and self._moment is not None:
                total = interface.bytes_sent + interface.bytes_received
                self._accounts[site, uplink] = budget.used(account, interface.name, total, self._moment)

    def correct(self, home: str, uplink: str, used_bytes: int) -> Used:
        """Return the use before the correction. Raise KeyError without an account."""
        account = self._accounts[home, uplink]
        assert self._moment is not None, "accounts are opened once the time is known"
        self._accounts[home, uplink] = budget.corrected(account, self._moment, used_bytes)
        return account.used

    # Limits

    @property
    def used(self) -> dict[str, Used]:
        return {named(at): account.used for at, account in self._accounts.items()}

    def account(self, home: str, uplink: str) -> Account | None:
        return self._accounts.get((home, uplink))

    def why(self, home: str, uplink: str) -> str | None:
        """Return why the uplink may not carry copies, or None."""
        account = self._accounts.get((home, uplink))
        return budget.barred(account, self._moment) if account is not None and self._moment is not None else None

    def nearly(self, home: str, uplink: str) -> str | None:
        """Return the warning that the uplink's budget is nearly used up, or None."""
        account = self._accounts.get((home, uplink))
        return budget.nearly(account, self._moment) if account is not None and self._moment is not None else None

    @property
    def barred(self) -> dict[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for home, uplink in self._accounts:
            if self.why(home, uplink) is not None:
                found[home] = found.get(home, frozenset()) | {uplink}
        return found

    def rates(self, home: str) -> Mapping[str, CopyRateLimit]:
        """Return the rate limits by uplink. Each applies at each end."""
        return dict(self._rates(home))

    def _rates(self, home: str) -> Iterator[tuple[str, CopyRateLimit]]:
        for (at, uplink), account in self._accounts.items():
            if at == home and account.limits.budget is not None:
                yield uplink, _rate(account.limits.budget.bytes - account.used.bytes)


def _on_the_wire(counted: PacketCounters, uplink: Uplink) -> int:
    return counted.bytes + counted.packets * uplink.outer_bytes


def _rate(left_bytes: int) -> CopyRateLimit:
    """Return a rate that cannot use up the budget before two more readings, each up to a second old.

    Rates are powers of two: each change of a meter refills its bucket.
    """
    step = 1 << max(left_bytes, 1).bit_length() - 1
    kbits = min(max(1, step * 8 // PARTS // 1000), FASTEST_KBPS)
    return CopyRateLimit(kbits, kbits)
