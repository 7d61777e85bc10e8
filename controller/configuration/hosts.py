"""Addresses of machines, as places of gateway.yaml name them with their networks."""

from __future__ import annotations

from controller.configuration.document import Place
from controller.model import Address, Family, Interface


def interfaces(place: Place) -> tuple[Interface, ...]:
    places = place.each(len(Family), "addresses, one of each family")
    found = tuple(inner.interface() for inner in places)
    if not found:
        raise place.wrong("at least one address with its prefix length")
    for inner, interface in zip(places, found, strict=True):
        a_host(inner, interface.ip, interface)
    one_a_family(found, place)
    return found


def one_a_family(addresses: tuple[Address | Interface, ...], place: Place) -> None:
    families = [Family.of(address) for address in addresses]
    if len(set(families)) != len(families):
        raise place.wrong("one of each family at most")


def a_host(place: Place, address: Address, network_of: Interface) -> None:
    if is_reserved(address, network_of):
        raise place.wrong(f"an address of a machine in {network_of.network}")


def is_reserved(address: Address, network_of: Interface) -> bool:
    """The network's own or its broadcast address, where the prefix leaves them."""
    network = network_of.network
    return network.num_addresses > 2 and (
        address == network.network_address or (address.version == 4 and address == network.broadcast_address)
    )
