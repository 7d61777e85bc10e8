# SPDX-License-Identifier: Apache-2.0
"""The agents by session and by name, and which of them speaks for each terminal. No feature owns them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from controller.agents.agent import Agent
from controller.agents.ownership import AddressIndex, AgentScope, OwnershipArbiter, OwnSideReports, proved_addresses
from controller.model.config import Config
from controller.model.overrides import RelayOverride
from controller.protocol.orders import Tickets
from controller.protocol.reports import AgentClosed, AgentEvent, AgentOpened, Reported, Resulted, Role

log = logging.getLogger(__name__)


class AgentRegistry:
    def __init__(self, config: Config, tickets: Tickets) -> None:
        self._tickets = tickets
        self.known: dict[str, Agent] = {}  # by name, including disconnected ones
        self._sessions: dict[int, Agent] = {}
        self._of_role: dict[Role, dict[str, Agent]] = {role: {} for role in Role}  # connected, by name
        self._witnesses = OwnSideReports()
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        self._addresses = AddressIndex(config.sites)
        self._claims = OwnershipArbiter(self._addresses)
        self._servers = config.servers
        self._witnesses.keep(terminal.name for site in config.sites for terminal in site.terminals)
        self._look_for_unlisted()
        here = self.of_roles(Role.TERMINAL)
        for agent in here:
            self._claims.come(agent.name, agent.terminal, agent.addresses)
        self._settle(agent.name for agent in here)

    # Events

    def checked(self, event: AgentEvent, relays: Mapping[str, RelayOverride], now: float) -> AgentEvent:
        """Return the event. In a server's report, `confirmed` holds the connections that count."""
        agent = self._sessions.get(event.session)
        if agent is None or not isinstance(event, Reported):
            return event
        if agent.role is not Role.RELAY:
            if self._unlisted:  # costly: a gateway reports thousands of connections
                self._witnesses.report(event, self._addresses.own_side(agent.role, agent.name, agent.homes), now)
            return event
        listed = agent.name in self._servers
        agent.listed = listed or agent.name in relays
        if listed:
            agent.unconfirmed = frozenset()
            return event
        own = proved_addresses(agent.peer, relays.get(agent.name))
        confirmed, agent.unconfirmed = self._witnesses.confirmed(
            agent.name, own, event.connections, self._addresses.alone, now
        )
        return replace(event, confirmed=confirmed)

    def on_event(self, event: AgentEvent, now: float) -> Agent | None:
        """Record an event and return its agent, also if its session ends. None: the session has ended before."""
        if isinstance(event, AgentOpened):
            return self._opened(event, now)
        agent = self._sessions.get(event.session)
        if agent is None:
            return None
        if isinstance(event, AgentClosed):
            del self._sessions[event.session], self._of_role[agent.role][agent.name]
            log.warning("agent %s disconnected: %s", agent.name, event.reason)
            agent.close(event.reason, now)
            self._look_for_unlisted()
            self._settle(self._claims.go(agent.name))
            return agent
        agent.heard(now)
        if isinstance(event, Reported):
            agent.on_report(event, now)
        elif isinstance(event, Resulted):
            agent.on_result(event, now)
        return agent

    def _opened(self, event: AgentOpened, now: float) -> Agent:
        agent = self.known.get(event.name)
        if agent is None:
            agent = self.known[event.name] = Agent(event, self._tickets, now)
        else:
            agent.open(event, now)
        self._sessions[event.session] = self._of_role[agent.role][agent.name] = agent
        self._look_for_unlisted()
        at_terminal, claims = agent.role is Role.TERMINAL, self._claims
        self._settle(claims.come(agent.name, agent.terminal, agent.addresses) if at_terminal else claims.go(agent.name))
        log.info("agent %s (%s) connected from %s", agent.name, agent.role, agent.peer)
        return agent

    def fallen_silent(self, now: float) -> Iterator[Agent]:
        """Yield the agents that are silent from now on."""
        for agent in self._sessions.values():
            if agent.falls_silent(now):
                log.warning("agent %s is silent: its earlier reports are discarded", agent.name)
                yield agent

    def _settle(self, names: Iterable[str]) -> None:
        for agent in (self.known[name] for name in names):
            agent.homes, agent.owns_nobody = self._claims.homes(agent.name), self._claims.why_not(agent.name)
            agent.owns = tuple(dict.fromkeys(home.terminal.name for home in agent.homes.values()))

    def _look_for_unlisted(self) -> None:
        """Record whether a connected server is not in gateway.yaml."""
        self._unlisted = any(agent.name not in self._servers for agent in self.of_roles(Role.RELAY))

    # Connected agents

    def of(self, session: int) -> Agent | None:
        return self._sessions.get(session)

    def at(self, role: Role, name: str) -> Agent | None:
        agent = self.known.get(name)
        return agent if agent is not None and agent.connected and agent.role is role else None

    def gateway(self, name: str) -> Agent | None:
        """Return the connected agent of a site, or None."""
        return self.at(Role.GATEWAY, name)

    def of_roles(self, *roles: Role) -> tuple[Agent, ...]:
        return tuple(agent for role in roles for agent in self._of_role[role].values())

    # Ownership

    def speaker(self, session: int) -> AgentScope | None:
        agent = self._sessions.get(session)
        return self._addresses.speaker(agent.role, agent.name, agent.homes) if agent is not None else None

    def speaks_for(self, session: int) -> tuple[str, ...]:
        agent = self._sessions.get(session)
        return agent.owns if agent is not None else ()
