"""Sites that are each other's far end: one of them mirrors the other, and knows its terminals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from controller.configuration.classes import MOST_FLOWS, flows_of, too_many
from controller.configuration.document import ConfigError, Place
from controller.model import Family, Returned, Site


def mirrored(sites: Mapping[str, Site], places: Mapping[str, Place]) -> tuple[Site, ...]:
    return tuple(_completed(site, sites, places[name]) for name, site in sites.items())


def _completed(site: Site, sites: Mapping[str, Site], place: Place) -> Site:
    if site.mirrors is None:
        return site

    def wrong(expected: str) -> ConfigError:
        return ConfigError(place.file, f"{place.where}.mirrors", site.mirrors, expected)

    other = sites.get(site.mirrors)
    if other is None or other is site:
        others = ", ".join(name for name in sites if name != site.name)
        raise wrong(f"another site of this file{f', such as {others}' if others else ''}")
    if other.mirrors is not None:
        raise wrong(f"a site that mirrors none: {other.name} mirrors {other.mirrors}")
    twin = next((each for each in sites.values() if each.mirrors == other.name and each is not site), None)
    if twin is not None:
        raise wrong(f"a site that no other one mirrors: {twin.name} does")
    ours, theirs = ({uplink.name for uplink in each.uplinks} for each in (site, other))
    if ours != theirs:
        raise wrong(
            f"a site with the same uplinks, {', '.join(sorted(ours))}: {other.name} has {', '.join(sorted(theirs))}"
        )
    returned = tuple(_returned(other))
    for each in returned:
        if any(subnet.holds(each.address) for subnet in site.subnets):
            raise wrong(
                f"a site whose terminals are outside: {each.address} of {each.terminal.name} is in a subnet of ours"
            )
        if not site.uplink(each.uplink).next_hop(Family.of(each.address)):
            raise wrong(f"a site that the uplink {each.uplink} leads back to: it has no next hop for {each.address}")
    flows = flows_of(other.named, (each.address for each in returned)) * len(site.inside_ports)
    if flows > MOST_FLOWS:
        raise wrong(too_many(f"the terminals' addresses and our {len(site.inside_ports)} ports inside"))
    return replace(site, returned=returned, named_there=other.named)


def _returned(site: Site) -> Iterator[Returned]:
    for terminal in site.terminals:
        for place in terminal.addresses:
            yield Returned(terminal, place.address, site.subnet(place.subnet).uplink or terminal.default_uplink)
