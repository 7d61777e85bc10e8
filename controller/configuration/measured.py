"""Uplinks of kind ethernet, and access points, that are measured: between which hosts, by what packets of theirs.

A tunnel's outer addresses are written already. What leaves by an uplink of kind ethernet are packets of terminals: how
one of the host's own gets there, only who built it knows; and so it is with how terminals reach their gateway's host.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.configuration.document import ConfigError, Mapped, Place
from controller.model import AccessPoint, Address, Measure, Settings, Site, Tunnel, Uplink

OF_MEASURING = ("measure",)  # keys of an uplink
NO_AGENTS = "controller.agents beside it: it is agents that measure"
THE_HOSTS = "the address of {}, such as its management port's: this one a bridge answers for, and no agent has it"


def measure_of(keys: Mapped, tunnel: Tunnel | None) -> Measure | None:
    return keys.maybe("measure", lambda at: _measure(at, tunnel), None)


def _measure(place: Place, tunnel: Tunnel | None) -> Measure:
    if tunnel is not None:
        raise place.wrong("nothing at an uplink of kind tunnel: that is measured between the tunnel's outer addresses")
    keys = place.mapping(required=("local", "remote"))
    local, remote = keys["local"].address(), keys["remote"].address()
    if local.version != remote.version:
        raise keys["remote"].wrong(f"an IPv{local.version} address, as `local` is")
    if local == remote:
        raise keys["remote"].wrong("another address than `local`: it is the other end's")
    return Measure(local, remote)


def can_be_measured(sites: tuple[Site, ...], places: Mapping[str, Place], settings: Settings) -> None:
    """What is written at one end fits the other one, or ConfigError."""
    named = {site.name: site for site in sites}
    for site in sites:
        for uplink in site.uplinks:
            if uplink.measure is not None:
                other = named[site.other_end] if site.other_end else None
                at = f"{places[site.name].where}.uplinks.{uplink.name}.measure"
                written = {key: str(getattr(uplink.measure, key)) for key in ("local", "remote")}
                _check(site, uplink, other, settings, Place(places[site.name].file, at, written))
        for one in (each for each in site.access_points if each.measure is not None):
            at = f"{places[site.name].where}.access_points.{one.name}.measure"
            _reached(site, one, settings, Place(places[site.name].file, at, str(one.measure)))


def _reached(site: Site, one: AccessPoint, settings: Settings, place: Place) -> None:
    if settings.agents is None:
        raise place.wrong(NO_AGENTS)
    if one.measure in _answered(site):
        raise place.wrong(THE_HOSTS.format("the gateway's host"))
    there = next((each for each in site.uplinks if each.tunnel and each.tunnel.remote == one.measure), None)
    if there is not None:
        raise place.wrong(f"an address of the gateway's host: this one is of the other end of the tunnel {there.name}")
    if any(one.measure == own.address for terminal in site.terminals for own in terminal.addresses):
        raise place.wrong("an address of the gateway's host: this one is a terminal's")


def _check(site: Site, uplink: Uplink, other: Site | None, settings: Settings, place: Place) -> None:
    if other is None:
        raise place.wrong("nothing: no site of this file is at the other end (`mirrors`), and nobody answers there")
    if settings.agents is None:
        raise place.wrong(NO_AGENTS)
    if other.uplink(uplink.name).measure is not None:
        raise place.wrong(f"it at one end: it is written at {other.name}, too, and one end starts")
    assert uplink.measure is not None
    for key, address, whose in (("local", uplink.measure.local, site), ("remote", uplink.measure.remote, other)):
        if address in (*_answered(site), *_answered(other)):
            expected = THE_HOSTS.format(f"the host of {whose.name}")
            raise ConfigError(place.file, f"{place.where}.{key}", str(address), expected)


def _answered(site: Site) -> list[Address]:
    between = [own.ip for uplink in site.uplinks for own in uplink.addresses]
    return [*between, *(own.ip for subnet in site.subnets for own in subnet.gateways)]
