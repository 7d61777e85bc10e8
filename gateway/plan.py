# SPDX-License-Identifier: Apache-2.0
"""The steps that make a bridge, as pure functions.

`bridge` carries out the plan that `doctor` reads, so both agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address

from controller.model.config import Datapath, Site
from controller.model.settings import Endpoint, LocalSocket, Settings
from gateway import host_end, host_uplink, internet_exit, lan, ports, sending
from gateway.host import ovs_vsctl
from gateway.ovs import MADE, SOCKET_LINK, SeenBridge, SeenController, SeenOvs, socket_link
from gateway.ports import UNMADE
from gateway.step import BridgePlan, HostState, Refusal, Step
from gateway.tls import Files

PROTOCOL = "OpenFlow13"
FAIL_MODE = "secure"  # the flows stay when the controller dies
# out-of-band: OVS adds no hidden flows. max_backoff: OVS finds a returned controller within 1 s, its minimum, not 8 s.
# OVS 3.1 obeys after a connection's first database change. The rate limits packets to the controller for all ports
# together, so no terminal can flood it.
CONTROLLER_COLUMNS = {
    "connection_mode": "out-of-band",
    "inactivity_probe": "5000",  # ms
    "max_backoff": "1000",  # ms
    "controller_rate_limit": "1000",  # packets/s
    "controller_burst_limit": "250",  # packets
}


def address_for_switch(listen: Endpoint) -> Endpoint:
    """Return the address for the switch. A controller that listens on all addresses gets loopback."""
    address = ip_address(listen.host)
    if address.is_unspecified:
        return replace(listen, host="127.0.0.1" if address.version == 4 else "::1")
    return listen


def target(settings: Settings) -> str:
    """Return the bridge's controller. Open vSwitch uses only Unix sockets in its own directory, so it gets a link."""
    if isinstance(settings.openflow, LocalSocket):
        return f"unix:{SOCKET_LINK}"
    return f"{'ssl' if settings.tls else 'tcp'}:{address_for_switch(settings.openflow)}"


def plan(site: Site, settings: Settings, files: Files | None, seen: HostState) -> BridgePlan:
    bridge = seen.ovs.bridge(site.bridge)
    return BridgePlan(
        site.name,
        (
            *_tls(files, seen.ovs),
            *_bridge(site, bridge),
            *_pairs(site, seen),
            *ports.steps(site, bridge, seen),
            *internet_exit.steps(site, bridge, seen),
            *host_uplink.steps(site, bridge, seen),
            *lan.steps(site, bridge, seen),
            *_socket(settings, seen.ovs),
            *_controller(site, settings, bridge),
            *_room(site, seen),
        ),
        tuple(_refusals(site, settings, files, bridge, seen)),
    )


def made_by_us(site: Site) -> tuple[str, ...]:
    """Return the ports to this host, of which `bicast bridge` makes both ends."""
    exits = internet_exit.port_of(site)
    return (*((exits,) if exits else ()), *host_uplink.ports_of(site), *site.lan_ports)


def _pairs(site: Site, seen: HostState) -> Iterator[Step]:
    if port := internet_exit.port_of(site):
        yield from host_end.pair(port, seen.links)
    yield from host_uplink.pairs(site, seen.links)
    yield from lan.pairs(site, seen.links)


def _tls(files: Files | None, ovs: SeenOvs) -> Iterator[Step]:
    if files is None:
        return
    wanted = _tls_paths(files)
    have = (ovs.tls.key, ovs.tls.certificate, ovs.tls.ca) if ovs.tls else ()
    # ovs-vsctl set-ssl cannot mark the row
    columns = zip(("private_key", "certificate", "ca_cert"), wanted, strict=True)
    command = ovs_vsctl(
        *("--", "--id=@tls", "create", "SSL", *(f"{column}={path}" for column, path in columns)),
        *(f"external_ids:{MADE}=yes", "--", "set", "Open_vSwitch", ".", "ssl=@tls"),
    )
    yield Step("switch TLS", " ".join(have) or "none", " ".join(wanted), () if have == wanted else (command,))


def _tls_paths(files: Files) -> tuple[str, str, str]:
    return (str(files.switch.key), str(files.switch.certificate), str(files.ca.certificate))


def _socket(settings: Settings, ovs: SeenOvs) -> Iterator[Step]:
    if isinstance(settings.openflow, LocalSocket):
        wanted, link = settings.openflow.path, str(socket_link())
        command = ("ln", "--symbolic", "--force", "--no-target-directory", wanted, link)
        yield Step(f"link {link}", ovs.socket or "none", wanted, () if ovs.socket == wanted else (command,))


def _bridge(site: Site, seen: SeenBridge | None) -> Iterator[Step]:
    wanted = {
        "datapath_type": site.datapath.value,
        "other_config:datapath-id": f"{site.dpid:016x}",
        "protocols": PROTOCOL,
        "fail_mode": FAIL_MODE,
    }
    if seen is None:
        words = [f"{column}={value}" for column, value in wanted.items()]
        # one transaction: a bridge never floods
        command = ovs_vsctl(
            "add-br", site.bridge, "--", "set", "Bridge", site.bridge, *words, f"external_ids:{MADE}=yes"
        )
        yield Step(f"bridge {site.bridge}", "absent", " ".join(words), (command,))
        return
    have = {
        "datapath_type": seen.datapath,
        "other_config:datapath-id": seen.dpid,
        "protocols": ",".join(sorted(seen.protocols)),
        "fail_mode": seen.fail_mode,
    }
    if seen.there:
        yield Step(f"bridge {site.bridge}", "present", "present")
    elif seen.datapath == site.datapath.value:
        # Open vSwitch retries at each database change
        again = ovs_vsctl("set", "Bridge", site.bridge, f"datapath_type={site.datapath.value}")
        yield Step(f"bridge {site.bridge}", UNMADE, "present", (again,), unmade(seen))
    for column, value in wanted.items():
        command = ovs_vsctl("set", "Bridge", site.bridge, f"{column}={value}")
        right = have[column] == value
        yield Step(f"{site.bridge} {column}", have[column] or "not set", value, () if right else (command,))


def unmade(bridge: SeenBridge) -> str:
    return f"Open vSwitch could not make it with datapath_type={bridge.datapath}"


def _controller(site: Site, settings: Settings, bridge: SeenBridge | None) -> Iterator[Step]:
    wanted = target(settings)
    words = [f"{column}={value}" for column, value in CONTROLLER_COLUMNS.items()]
    have = bridge.controllers if bridge else ()
    if [each.target for each in have] != [wanted]:
        # One by one: OVS 3.1 applies max_backoff only to a change during a connection, else keeps 8 s.
        commands = (
            ovs_vsctl("set-controller", site.bridge, wanted),
            ovs_vsctl("set", "Controller", site.bridge, *words),
        )
        found = " ".join(each.target for each in have) or "none"
        yield Step(f"{site.bridge} controller", found, wanted, commands)
        return
    yield Step(f"{site.bridge} controller", wanted, wanted)
    yield _controller_columns(site.bridge, have[0], words)


def _controller_columns(bridge: str, seen: SeenController, words: list[str]) -> Step:
    found = [f"{column}={seen.columns[column]}" for column in CONTROLLER_COLUMNS]
    command = ovs_vsctl("set", "Controller", seen.uuid, *words)
    return Step(
        f"{bridge} controller connection", " ".join(found), " ".join(words), () if found == words else (command,)
    )


def _room(site: Site, seen: HostState) -> Iterator[Step]:
    """Yield the step for the send buffer. The socket exists after the first packet, so a port must exist."""
    there = {*seen.links, *made_by_us(site)}
    if site.datapath is not Datapath.NETDEV or there.isdisjoint(site.ports):
        return
    found = f"{seen.room_bytes >> 10} KiB" if seen.room_bytes else "no packet sent yet"
    wanted = f"{sending.ROOM_BYTES >> 10} KiB, so that packets queued on one uplink do not block the others"
    right = (seen.room_bytes or 0) >= sending.ROOM_BYTES
    yield Step(f"{site.bridge} send buffer", found, wanted, () if right else ((*sending.COMMAND, site.bridge),))


def _refusals(
    site: Site, settings: Settings, files: Files | None, bridge: SeenBridge | None, seen: HostState
) -> Iterator[Refusal]:
    if bridge and not bridge.made:
        yield from _takeover(site, settings, bridge)
    tls = seen.ovs.tls
    if files and tls and not tls.made and (tls.key, tls.certificate, tls.ca) != _tls_paths(files):
        yield Refusal(
            "switch TLS",
            f"this Open vSwitch presents {tls.certificate} to its controllers and can have only "
            "one certificate: they would get bicast's instead",
        )
    for name in site.ports:
        yield from _port_refusals(site, name, seen)


def _takeover(site: Site, settings: Settings, bridge: SeenBridge) -> Iterator[Refusal]:
    others = [each.target for each in bridge.controllers if each.target != target(settings)]
    if others:
        yield Refusal(
            f"{bridge.name} controller",
            f"{bridge.name} was not created by bicast and uses the controller {' '.join(others)}: it would lose "
            "that controller",
        )
    if bridge.datapath != site.datapath.value:
        yield Refusal(
            f"{bridge.name} datapath_type",
            f"{bridge.name} was not created by bicast and has the datapath {bridge.datapath}: a change "
            f"to {site.datapath.value} stops all its ports for a moment and renumbers them",
        )


def _port_refusals(site: Site, name: str, seen: HostState) -> Iterator[Refusal]:
    home = seen.ovs.bridge_of(name)
    if home and home.name != site.bridge:
        line = f"ovs-vsctl del-port {home.name} {name}"
        yield Refusal(f"{name} port", f"{name} is a port of {home.name}: first run {line}", forcible=False, mend=line)
        return
    link = seen.links.get(name)
    if home or link is None:
        return
    if link.master:
        line = f"ip link set dev {name} nomaster"
        yield Refusal(
            f"{name} port", f"{name} is a port of {link.master}, which would lose it: first run {line}", mend=line
        )
    if link.carries:
        line = f"ip address flush dev {name}"
        alone = not link.default_routes and not link.ssh
        yield Refusal(
            f"{name} addresses",
            f"{name} carries {link.carries}: as a port of {site.bridge} its packets belong to the "
            f"bridge, and this host loses that connection. Remove the addresses first ({line}), over another "
            "connection",
            mend=line if alone else None,
        )
