"""Who speaks for a terminal, where several agents were enrolled for it and have its addresses.

An agent speaks for the terminal that its certificate names, and for no other. The agent of the terminal's own name
does, as long as it is connected; else whoever came first. The others own nothing of that terminal until it goes.
"""

from __future__ import annotations

from controller.policy.ways import Home
from controller.steering.residents import Residents


class Claims:
    """Of agents that are connected."""

    def __init__(self, residents: Residents) -> None:
        self._residents = residents
        self._addresses: dict[str, tuple[str, ...]] = {}  # by agent
        self._bound: dict[str, str] = {}  # by agent: the terminal that it may speak for
        self._homes: dict[str, dict[str, Home]] = {}  # by agent: what it would be, by address
        self._claimants: dict[str, dict[str, None]] = {}  # by terminal: agents, in the order in which they came

    def come(self, agent: str, terminal: str, addresses: tuple[str, ...]) -> set[str]:
        """The agents whose terminals this may change."""
        changed = self.go(agent) | {agent}
        self._addresses[agent], self._bound[agent] = addresses, terminal
        self._homes[agent] = self._residents.at_host(terminal, addresses)
        for terminal in self._wanted(agent):
            claimants = self._claimants.setdefault(terminal, {})
            changed |= claimants.keys()
            claimants[agent] = None
        return changed

    def go(self, agent: str) -> set[str]:
        """The others whose terminals this may change."""
        changed: set[str] = set()
        for terminal in self._wanted(agent):
            claimants = self._claimants[terminal]
            del claimants[agent]
            changed |= claimants.keys()
        self._homes.pop(agent, None)
        self._addresses.pop(agent, None)
        self._bound.pop(agent, None)
        return changed

    def homes(self, agent: str) -> dict[str, Home]:
        """By address, those of the terminals that it speaks for."""
        homes = self._homes[agent]
        return {address: home for address, home in homes.items() if self._speaker(home.terminal.name) == agent}

    def why_not(self, agent: str) -> str | None:
        """Why it speaks for nobody; None: it speaks for its terminal."""
        wanted = self._wanted(agent)
        if not wanted:
            return self._residents.why_nobody(self._bound[agent], self._addresses[agent])
        lost = [self._lost(terminal) for terminal in wanted if self._speaker(terminal) != agent]
        return "; ".join(lost) or None

    def _lost(self, terminal: str) -> str:
        speaker = self._speaker(terminal)
        first = "" if speaker == terminal else ", which came first,"
        return f"it has addresses of the terminal {terminal}, and the agent {speaker}{first} is that terminal"

    def _speaker(self, terminal: str) -> str:
        claimants = self._claimants[terminal]
        return terminal if terminal in claimants else next(iter(claimants))

    def _wanted(self, agent: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(home.terminal.name for home in self._homes.get(agent, {}).values()))
