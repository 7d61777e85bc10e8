"""By which networks a network sends: each tells its customers of all ways, and others of its customers' alone; it
prefers a customer's way to a neighbour's, and that to a provider's (Gao and Rexford), and a short one to a long one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from experiments.relay.planet.networks import Network

CUSTOMER, NEIGHBOUR, PROVIDER = range(3)


def chains(networks: Mapping[str, Network], destination: str) -> dict[str, tuple[str, ...]]:
    """Of each network the ones that lead to this one, itself first."""
    found: dict[str, tuple[str, ...]] = {destination: (destination,)}
    while True:
        after: dict[str, tuple[str, ...]] = {destination: (destination,)}
        for name, network in networks.items():
            if name == destination:
                continue
            offered = list(_offered(networks, found, network))
            if offered:
                after[name] = (name, *min(offered, key=lambda chain: _rank(networks, network, chain)))
        if after == found:
            return found
        found = after


def _offered(
    networks: Mapping[str, Network], found: Mapping[str, tuple[str, ...]], network: Network
) -> Iterator[tuple[str, ...]]:
    for neighbour in network.borders:
        chain = found.get(neighbour)
        if chain is None or network.name in chain:
            continue
        to_customer = network.name in networks[neighbour].customers
        if to_customer or len(chain) == 1 or chain[1] in networks[neighbour].customers:
            yield chain


def _rank(networks: Mapping[str, Network], network: Network, chain: tuple[str, ...]) -> tuple[int, bool, int, str]:
    first = chain[0]
    kind = CUSTOMER if first in network.customers else PROVIDER if first in network.providers else NEIGHBOUR
    unloved = not (networks[first].research or network.by_length)
    return kind, unloved, len(chain), first
