# SPDX-License-Identifier: Apache-2.0
"""The path between switch and controller: its ports, and firewalls."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

from controller.model.settings import Endpoint, LocalSocket
from gateway import nft
from gateway.finding import Finding, State, judged
from gateway.host import HostError, run
from gateway.plan import address_for_switch
from gateway.scene import CheckContext

PATIENCE_S = 1.0
OURS = re.compile(r"\0-m\0(cli\0run|controller)\0")  # ./bicast run, as the kernel shows arguments


def listeners(context: CheckContext) -> Iterator[Finding]:
    if context.config is None:
        return
    settings = context.config.settings
    for name, endpoint in (("OpenFlow", settings.openflow), ("API", settings.api)):
        if isinstance(endpoint, LocalSocket):
            yield _local_listener(f"{name} socket {endpoint}", endpoint)
        elif _here(context, endpoint):
            yield _listener(f"{name} port {endpoint}", endpoint)
    if settings.unproven is not None:
        yield Finding("OpenFlow listener", State.WARNING, settings.unproven, "a Unix socket, or TLS")


def _here(context: CheckContext, endpoint: Endpoint) -> bool:
    address = ip_address(endpoint.host)
    own = {inside.ip for link in context.links.values() for inside in link.addresses}
    return address.is_loopback or address.is_unspecified or address in own


def _listener(name: str, endpoint: Endpoint) -> Finding:
    expected = "free, or the controller's"
    for line in run(("ss", "-Hltnp", "sport", "=", f":{endpoint.port}")).out.splitlines():
        local = line.split()[3].rpartition(":")[0].strip("[]").partition("%")[0]
        if local not in ("*", "0.0.0.0", "::", endpoint.host) and not ip_address(endpoint.host).is_unspecified:
            continue
        return _holder(name, line, expected)
    return Finding(name, State.OK, "free: no controller runs here", expected)


def _local_listener(name: str, listen: LocalSocket) -> Finding:
    expected = "free, or the controller's"
    for line in run(("ss", "-Hlxp")).out.splitlines():
        if listen.path in line.split():
            return _holder(name, line, expected)
    return Finding(name, State.OK, "free: no controller runs here", expected)


def _holder(name: str, line: str, expected: str) -> Finding:
    process = re.search(r"pid=(\d+)", line)
    if process is None:
        return Finding(name, State.BAD, "in use by a process that is not visible from here", expected)
    pid = int(process[1])
    command = Path(f"/proc/{pid}/cmdline").read_text()
    shown = command.replace("\0", " ").strip()
    right = OURS.search(command) is not None
    return judged(name, right, f"in use by process {pid}, {shown}", expected, f"kill {pid}", else_=State.BAD)


def reached(context: CheckContext) -> Iterator[Finding]:
    """Check for a firewall. A refused connection reached the host; one without an answer was dropped."""
    if context.config is None or isinstance(context.config.settings.openflow, LocalSocket):
        return
    where = address_for_switch(context.config.settings.openflow)
    dropped = not _led(context) and _dropped(where)
    line = _opening() if _here(context, where) else None
    found = f"no answer within {PATIENCE_S:g} s" if dropped else "packets to it are not dropped"
    expected = f"an answer: a firewall on this host or the other drops packets to {where}"
    yield judged("path to the controller", not dropped, found, expected, line, else_=State.BAD)


def _led(context: CheckContext) -> bool:
    """Return whether the bridges are connected. Then no test connection to the controller is needed."""
    try:
        bridges = [context.seen.ovs.bridge(site.bridge) for site in context.sites]
    except HostError:
        return False
    return all(bridge and any(each.connected for each in bridge.controllers) for bridge in bridges)


def _dropped(where: Endpoint) -> bool:
    try:
        socket.create_connection((where.host, where.port), PATIENCE_S).close()
    except TimeoutError:
        return True
    except OSError:  # refused or unreachable: a host answered
        return False
    return False


def _opening() -> str | None:
    """Return commands that accept loopback in each chain that filters this host's packets."""
    lines = [
        f"nft insert rule {chain.table} {side} lo accept"
        for chain in nft.chains()
        if (side := {"input": "iif", "output": "oif"}.get(chain.hook))
    ]
    return " && ".join(lines) or None


def drops(context: CheckContext) -> Iterator[Finding]:
    """Check nft chains whose hook is a port. A bridge's packets pass no other chain."""
    for chain in nft.chains():
        for device in (name for name in chain.devices if name in context.ports):
            yield judged(
                f"{device} {chain.hook} hook",
                not chain.drops,
                f"nft chain {chain.table} " + ("drops" if chain.drops else "accepts all packets"),
                "no drop rules on a port of the bridge, unless this is a lab that drops packets on purpose",
                f"nft 'flush chain {chain.table}; delete chain {chain.table}'",
                else_=State.WARNING,
            )
