"""Uplinks of kind tunnel: what is written of each end, and that two ends are of one tunnel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from controller.configuration.document import ConfigError, Mapped, Place
from controller.model import Settings, Site, Tunnel, Uplink, UplinkKind

OF_TUNNELS = ("device", "remote", "udp_port")  # keys of an uplink
VXLAN_PORT = 4789  # IANA's
MOST_OF_A_SITE = 8
TOLD_APART_BY = 0xFFFFF  # of a dpid: what a VNI, which has 24 bits, holds of it beside the tunnel's number

Ends = tuple[Site, Site]


def tunnel_of(keys: Mapped) -> Tunnel | None:
    """As it is written. What both ends share, `tunnelled` gives to both."""
    kinds = {kind.value: kind for kind in UplinkKind}
    if keys.maybe("kind", lambda at: at.choice(kinds), UplinkKind.ETHERNET) is UplinkKind.ETHERNET:
        for key in OF_TUNNELS:
            keys.maybe(key, _not_of_ethernet, None)
        return None
    remote = keys.maybe("remote", Place.address, None)
    if remote is None:
        keys.maybe("udp_port", _without_remote, None)
    device = keys.maybe("device", Place.port_name, None)
    if device == keys["port"].value:
        raise keys["port"].wrong("a name of its own: the site's agent makes a device that is called so")
    return Tunnel(device, remote, keys.maybe("udp_port", lambda at: at.integer(1, 65534), VXLAN_PORT), vni=0)


def tunnelled(sites: tuple[Site, ...], places: Mapping[str, Place], settings: Settings) -> tuple[Site, ...]:
    """Each tunnel with the number and the port that both of its ends know it by."""
    completed = {site.name: site for site in sites}
    vnis: dict[int, str] = {}
    for home, far in _pairs(sites, places, settings):
        for number, name in enumerate(sorted(uplink.name for uplink in home.uplinks if uplink.tunnel)):
            vni = (home.dpid & TOLD_APART_BY) * MOST_OF_A_SITE + number + 1
            if vnis.setdefault(vni, home.name) != home.name:
                expected = (
                    f"a dpid with other last five digits than that of {vnis[vni]}: tunnels are told apart by them"
                )
                raise ConfigError(
                    places[home.name].file, f"{places[home.name].where}.dpid", f"{home.dpid:016x}", expected
                )
            for site in (home, far):
                other = far if site is home else home
                completed[site.name] = _numbered(completed[site.name], name, vni, _starting(site, other, name))
    return tuple(completed.values())


def _pairs(sites: tuple[Site, ...], places: Mapping[str, Place], settings: Settings) -> Iterator[Ends]:
    named = {site.name: site for site in sites}
    for site in sites:
        other = named[site.other_end] if site.other_end else None
        for uplink in site.uplinks:
            if uplink.tunnel:
                at = f"{places[site.name].where}.uplinks.{uplink.name}"
                _check(site, uplink, other, settings, places[site.name].file, at)
        if site.mirrors is None and other is not None:
            yield site, other


def _check(site: Site, uplink: Uplink, other: Site | None, settings: Settings, file: str, at: str) -> None:
    def wrong(key: str, value: object, expected: str) -> ConfigError:
        return ConfigError(file, f"{at}.{key}", value, expected)

    tunnel = uplink.tunnel
    assert tunnel is not None
    if other is None:
        raise wrong("kind", "tunnel", "ethernet: no site of this file is at the other end (`mirrors`)")
    if settings.agents is None:
        raise wrong("kind", "tunnel", "controller.agents beside it: it is the sites' agents that make tunnels")
    there = other.uplink(uplink.name).tunnel
    if there is None:
        raise wrong("kind", "tunnel", f"the same kind at both ends: at {other.name} it is ethernet")
    if tunnel.remote is None and there.remote is None:
        raise wrong("remote", None, f"the outer address of {other.name}, here, or ours there: one end starts")
    if tunnel.remote is not None and there.remote is not None:
        raise wrong("remote", str(tunnel.remote), f"none: {other.name} knows our address and starts; one end learns")
    if tunnel.device in site.ports:
        raise wrong("device", tunnel.device, "a device that the host has addresses on: this one is the bridge's port")
    for network in site.networks:
        if tunnel.remote is not None and tunnel.remote in network:
            raise wrong("remote", str(tunnel.remote), f"an address outside: {network} is the bridge's own")


def _starting(site: Site, other: Site, name: str) -> Tunnel:
    """The end that knows where the other is: what it has of both counts."""
    ends = (each.uplink(name).tunnel for each in (site, other))
    return next(tunnel for tunnel in ends if tunnel is not None and tunnel.remote is not None)


def _numbered(site: Site, name: str, vni: int, starting: Tunnel) -> Site:
    def completed(uplink: Uplink) -> Uplink:
        if uplink.name != name or uplink.tunnel is None:
            return uplink
        return replace(uplink, tunnel=replace(uplink.tunnel, vni=vni, udp_port=starting.udp_port))

    return replace(site, uplinks=tuple(map(completed, site.uplinks)))


def _not_of_ethernet(place: Place) -> None:
    raise place.wrong("`kind: tunnel` beside it, for only a tunnel has this key; or nothing, where it is none")


def _without_remote(place: Place) -> None:
    raise place.wrong("nothing: it is written beside `remote`, at the end that starts")
