# SPDX-License-Identifier: Apache-2.0
"""The steps that a home and a far site share, and their undo."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from controller.edges.config.load import load, parse
from controller.model.config import Config, ConfigError, Site
from gateway import bridge, links, ovs
from gateway.host import PACKAGE_OF, HostError, run
from gateway.init import services
from gateway.init.made import FILE, MARK, UNIT, Change, Made, Places, removals
from gateway.init.services import Systemd
from gateway.step import Step

PROGRAMS = ("ip", "ethtool", "nft", "openssl", "ovs-vsctl", "ss", "sysctl")
Report = Callable[[Change], None]


def carry_out(changes: Iterable[Change], report: Report) -> int:
    """Make each change as it comes, and return how many there were: a later one looks at the result of those before."""
    count = 0
    for change in changes:
        if change.act is not None:
            change.act()
            count += 1
        report(change)
    return count


# Refusals, before the first change


def refuse_unprepared(places: Places, made: Made, systemd: Systemd, more: Sequence[str] = ()) -> None:
    for name in (*PROGRAMS, *more):
        if shutil.which(name) is None:
            package = {"dnsmasq": "dnsmasq-base"}.get(name, PACKAGE_OF.get(name, name))
            raise HostError(f"{name} is not installed: apt-get install -y {package}")
    services.refuse_without_services(places, systemd)
    ovs.read()
    if made:
        return
    for path in (places.gateway, places.defaults, places.tls, *places.states):
        if path.exists() and (path.is_file() or any(path.iterdir())):
            raise HostError(
                f"{path} exists, and `bicast init` did not make it: remove what is set up here by hand "
                "(docs/how-to/far-site.md, Undo), and move it away"
            )


def refuse_taken(tcp: Iterable[int], udp: Iterable[int]) -> None:
    for kind, name, ports in ((socket.SOCK_STREAM, "TCP", tcp), (socket.SOCK_DGRAM, "UDP", udp)):
        for port in ports:
            with socket.socket(socket.AF_INET, kind) as probe:
                if kind == socket.SOCK_STREAM:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("0.0.0.0", port))
                except OSError:
                    raise HostError(
                        f"port {name} {port} is in use on this machine: end that program (`ss -lnp` names it), or use "
                        "another machine"
                    ) from None


# Changes


def configuration(places: Places, made: Made, text: str, site: str) -> Iterator[Change]:
    """Yield gateway.yaml and the name of this machine's site. A text with errors is not written."""
    try:
        parse(text, str(places.gateway))
    except ConfigError as error:
        raise HostError(f"{error}; both machines need the same bicast version") from error
    yield made.file(places.gateway, text)
    yield made.file(places.defaults, f"{MARK}\nBICAST_SITE={site}\n")


def tls_listed(places: Places, made: Made, stems: Iterable[tuple[str, str]]) -> Iterator[Change]:
    """Yield the removal of half-made pairs of a killed `init`, and list the files that the bridge's steps make."""
    made.make_directory(places.tls, 0o700)
    for certificate, key in stems:
        pair = (places.tls / certificate, places.tls / key)
        for path in pair:
            made.add(FILE, str(path))
        whole = [path.exists() and path.stat().st_size > 0 for path in pair]
        if any(path.exists() for path in pair) and not all(whole):
            yield Change(f"half of {pair[0]}", "present", "absent", partial(_remove, pair))


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def site_of(places: Places, name: str) -> tuple[Config, Site]:
    try:
        config = load(str(places.gateway))
    except ConfigError as error:
        raise HostError(str(error)) from error
    site = next((each for each in config.sites if each.name == name), None)
    if site is None:
        raise HostError(f"{places.gateway} has no site {name}: run `bicast uninstall`, and `bicast init` again")
    return config, site


def bridged(places: Places, name: str) -> Iterator[Change]:
    config, site = site_of(places, name)
    yield from map(_of_step, bridge.preparation(config, (site,)).steps)
    failed = bridge.failures((site,))
    if failed:
        raise HostError(f"{'; '.join(failed)}: `bicast doctor {places.gateway}` shows what is wrong")


def _of_step(step: Step) -> Change:
    return Change(step.name, step.found, step.wanted, partial(_run_all, step.commands) if step.commands else None)


def _run_all(commands: Iterable[tuple[str, ...]]) -> None:
    for command in commands:
        run(command)


# Undo


def uninstalled(places: Places, made: Made, systemd: Systemd) -> Iterator[Change]:
    """Yield the removal of all that `init` made here."""
    yield from services.stopped(made, systemd)
    name = _own_site(places)
    if places.gateway.exists() and name:  # a killed removal deletes the bridge before these files
        _, site = site_of(places, name)
        for step in bridge.undoing((site,)).steps:
            act = partial(_run_on_devices_left, step.commands) if step.commands else None
            yield Change(step.name, step.found, step.wanted, act)
    yield from services.undone(made)
    yield from removals(places, made)
    yield Change("systemd", "old units", "their absence", partial(_units_forgotten, made, systemd))
    yield Change("network managers", "old files", "their absence", partial(services.managers_reread, systemd))
    yield made.end()


def _units_forgotten(made: Made, systemd: Systemd) -> None:
    systemd.reload()
    systemd.forget_failures(made.entries(UNIT))


def _run_on_devices_left(commands: Iterable[tuple[str, ...]]) -> None:
    """Run the commands, but no ethtool on a device that an earlier step deleted, such as the exit's pair."""
    for command in commands:
        gone = command[:2] == ("ethtool", "-K") and command[2] not in [link.name for link in links.read()]
        if not gone:
            run(command)


def _own_site(places: Places) -> str:
    lines = places.defaults.read_text(encoding="utf-8").splitlines() if places.defaults.exists() else []
    return next((line.removeprefix("BICAST_SITE=") for line in lines if line.startswith("BICAST_SITE=")), "")
