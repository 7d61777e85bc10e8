# SPDX-License-Identifier: Apache-2.0
"""The bridge's ports: leftover addresses and routes, and MTUs."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.finding import Finding, State, judged
from gateway.ports import made_by_agent
from gateway.scene import CheckContext


def addresses(context: CheckContext) -> Iterator[Finding]:
    for name in context.ports:
        link = context.links[name]
        alone = not link.default_routes and not link.ssh
        yield judged(
            f"{name} addresses",
            not link.carries,
            link.carries or "none",
            "none: the bridge answers for the gateway's addresses, and this host must not use this port",
            f"ip address flush dev {name}" if alone else None,
            else_=State.BAD,
        )


def mtu(context: CheckContext) -> Iterator[Finding]:
    """Check the MTUs. The bridge drops a copy that is too long for its uplink, and sends no error."""
    for site in context.sites:
        fitted = made_by_agent(site)  # the agent announces their MTU to terminals
        here = [context.links[name] for name in site.ports if name in context.links and name not in fitted]
        if not here:
            continue
        least = min(link.mtu for link in here)
        longer = [link for link in here if link.mtu != least]
        line = " && ".join(f"ip link set dev {link.name} mtu {least}" for link in longer)
        found = ", ".join(f"{link.name} {link.mtu}" for link in here)
        expected = (
            f"{least} on all ports and terminals: longer packets have no copy on the uplink with the smallest MTU"
        )
        yield judged(f"{site.name} MTU", not longer, found, expected, line, else_=State.BAD)


def stuck_offloads(context: CheckContext) -> Iterator[Finding]:
    for name, offloads in context.seen.offloads.items():
        yield judged(
            f"{name} fixed offloads",
            not offloads.stuck,
            " ".join(offloads.stuck) or "none",
            "none that the driver keeps on; with `datapath: system` the kernel handles them",
            else_=State.WARNING,
        )
