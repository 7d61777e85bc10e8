# SPDX-License-Identifier: Apache-2.0
"""Sysctls that drop or add copies."""

from __future__ import annotations

from collections.abc import Iterator

from controller.model.config import Datapath
from gateway.finding import Finding, State, judged
from gateway.host import sysctl
from gateway.scene import CheckContext

STRICT = "1"
NOT_STRICT = "0 or 2: with 1 the kernel silently drops a copy that arrives from the other side"
# name, value, why (one blackholed SYN turns new connections to plain TCP for an hour; a dead path holds its data for
# about a second)
MPTCP = (
    ("net.mptcp.enabled", "1", "1: MPTCP is on"),
    ("net.mptcp.blackhole_timeout", "0", "0: one lost SYN must not disable MPTCP for an hour"),
    ("net.mptcp.stale_loss_cnt", "1", "1: data queued on a dead path moves after one loss"),
)


def rp_filter(context: CheckContext) -> Iterator[Finding]:
    """Check rp_filter. The kernel uses the larger of `all` and the interface's value; loose (2) exceeds strict (1)."""
    names = context.ports if context.config else tuple(name for name in context.links if name != "lo")
    multihomed = sum(bool(link.addresses) for name, link in context.links.items() if name != "lo") > 1
    matters = State.BAD if context.config or multihomed else State.WARNING
    for name in ("all", "default"):
        value = sysctl(f"net/ipv4/conf/{name}/rp_filter") or "0"
        line = f"sysctl -w net.ipv4.conf.{name}.rp_filter=0"
        state = matters if name == "all" else State.WARNING
        yield judged(f"rp_filter {name}", value != STRICT, value, NOT_STRICT, line, else_=state)
    for name in names:
        effective = effective_rp_filter(name)
        line = f"sysctl -w net/ipv4/conf/all/rp_filter=0 net/ipv4/conf/{name}/rp_filter=0"
        yield judged(f"rp_filter {name}", effective != STRICT, effective, NOT_STRICT, line, else_=matters)


def effective_rp_filter(name: str) -> str:
    return max(sysctl(f"net/ipv4/conf/{each}/rp_filter") or "0" for each in ("all", name))


def forwarding(context: CheckContext) -> Iterator[Finding]:
    """Check forwarding. Ports of a userspace datapath also feed the host's stack, which would route a second copy."""
    ports = [name for site in context.sites if site.datapath is Datapath.NETDEV for name in site.ports]
    everywhere = sysctl("net/ipv6/conf/all/forwarding") == "1"
    for name in (name for name in dict.fromkeys(ports) if name in context.links):
        on = sysctl(f"net/ipv4/conf/{name}/forwarding") == "1"
        line = f"sysctl -w net/ipv4/conf/{name}/forwarding=0"
        expected = "off: the bridge forwards, and this host would forward a second copy"
        yield judged(f"IPv4 forwarding {name}", not on, "on" if on else "off", expected, line, else_=State.BAD)
        on = everywhere and sysctl(f"net/ipv6/conf/{name}/disable_ipv6") == "0"
        line = f"sysctl -w net/ipv6/conf/{name}/disable_ipv6=1"
        yield judged(f"IPv6 forwarding {name}", not on, "on" if on else "off", expected, line, else_=State.BAD)


def mptcp(context: CheckContext) -> Iterator[Finding]:
    """Check the MPTCP settings of hosts that end connections: terminals, relays, servers. Gateways only forward."""
    for name, wanted, why in MPTCP:
        value = sysctl(name)
        found = "this kernel has no such setting" if value is None else value
        yield judged(name, value in (None, wanted), found, why, f"sysctl -w {name}={wanted}", else_=State.WARNING)
