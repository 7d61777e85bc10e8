# SPDX-License-Identifier: Apache-2.0
"""The use of budgets by copies, counted at both ends of each uplink with limits, and the limits that follow.

readings of switches ──► accounts (policy/copies/budget.py) ──► barred uplinks, and why
                                                    └──► the rate limit of copies
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.model.config import Config, Site
from controller.model.known import CopyRateLimit, Port, Spent
from controller.model.uplink import UNLIMITED
from controller.policy.copies import budget
from controller.policy.copies.budget import Account, CounterReading, Moment
from controller.program.metering import counted, through
from controller.program.program import Installed

Metered = tuple[str, str]  # home and uplink
PARTS = 16  # the rate per second and the burst are this part of the remaining budget, at each end
FASTEST_KBPS = 4_000_000  # a meter's fields have 32 bits, and datapaths count bits


def named(metered: Metered) -> str:
    return "/".join(metered)


class Budgets:
    def __init__(self, config: Config, stored: Mapping[str, Spent]) -> None:
        self._stored = stored  # from an earlier run
        self._moment: Moment | None = None
        self._accounts: dict[Metered, Account] = {}
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        self._limits = {
            (site.name, uplink.name): uplink.limits
            for site in config.sites
            if site.peer_of is None
            for uplink in site.uplinks
            if uplink.limits != UNLIMITED
        }
        self._stored = {**self._stored, **self.spent}
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
        outer = {ports[uplink.port].number: uplink.outer_bytes for uplink in site.uplinks if uplink.port in ports}
        sent = {number: counters.sent for number, counters in installed.port_counters.items() if number in outer}
        carried = {number: each.bytes + each.packets * outer[number] for number, each in sent.items()}
        tables = through(site)
        for uplink, copied in counted(site, installed).items():
            account = self._accounts.get((site.home, uplink))
            if account is not None and self._moment is not None:
                reading = CounterReading(f"{site.dpid:016x}/{tables[uplink].table}", copied, carried)
                self._accounts[site.home, uplink] = budget.counted(account, reading, self._moment)

    def correct(self, home: str, uplink: str, copied_bytes: int) -> Spent:
        """Return the use before the correction. Raise KeyError without an account."""
        account = self._accounts[home, uplink]
        assert self._moment is not None, "accounts are opened once the time is known"
        self._accounts[home, uplink] = budget.corrected(account, self._moment, copied_bytes)
        return account.spent

    # Limits

    @property
    def spent(self) -> dict[str, Spent]:
        return {named(at): account.spent for at, account in self._accounts.items()}

    def account(self, home: str, uplink: str) -> Account | None:
        return self._accounts.get((home, uplink))

    def why(self, home: str, uplink: str) -> str | None:
        """Return why the uplink may not carry copies, or None."""
        account = self._accounts.get((home, uplink))
        return budget.barred(account, self._moment) if account is not None and self._moment is not None else None

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
            budget_bytes = account.limits.budget_bytes_per_day
            if at == home and budget_bytes is not None:
                yield uplink, _rate(budget_bytes - account.spent.copied_bytes)


def _rate(left_bytes: int) -> CopyRateLimit:
    """Return a rate that cannot use up the budget before two more readings, each up to a second old.

    Rates are powers of two: each change of a meter refills its bucket.
    """
    step = 1 << max(left_bytes, 1).bit_length() - 1
    kbits = min(max(1, step * 8 // PARTS // 1000), FASTEST_KBPS)
    return CopyRateLimit(kbits, kbits)
