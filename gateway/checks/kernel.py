# SPDX-License-Identifier: Apache-2.0
"""Kernel abilities, tried in a temporary namespace."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from controller.model.config import Datapath
from gateway.finding import Finding, State, judged
from gateway.host import HostError, succeeds
from gateway.scene import CheckContext

MPTCP_SOCKET = "import socket; socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)"  # IPPROTO_MPTCP
EGRESS_HOOK = "table netdev t { chain c { type filter hook egress device lo priority 0; }; }"
KERNEL = "another kernel: Debian 12 and 13 and Ubuntu 24.04 include this feature"


def mptcp(context: CheckContext) -> Iterator[Finding]:
    can = able(sys.executable, "-c", MPTCP_SOCKET)
    expected = f"yes, for terminals and relays; a gateway forwards MPTCP without it: {KERNEL}"
    yield judged("kernel MPTCP", can, _yes(can), expected, else_=State.WARNING)


def datapath(context: CheckContext) -> Iterator[Finding]:
    can = able("genl", "ctrl", "get", "name", "ovs_datapath")
    needed = [site.name for site in context.sites if site.datapath is Datapath.SYSTEM]
    if needed:
        # only if the module exists
        line = "modprobe openvswitch" if succeeds(("modinfo", "openvswitch")) else None
        expected = f"yes, for {', '.join(needed)}; or `datapath: netdev` there; or {KERNEL}"
        yield judged("kernel openvswitch", can, _yes(can), expected, line, else_=State.BAD)
    else:
        # without gateway.yaml the datapath is unknown
        unable = not can and not context.sites
        found = "no: write `datapath: netdev` into gateway.yaml; the default is `system`"
        state = State.WARNING if unable else State.OK
        expected = "yes, for sites with `datapath: system`, the default"
        yield Finding("kernel openvswitch", state, found if unable else _yes(can), expected)


def lab(context: CheckContext) -> Iterator[Finding]:
    """Check the queueing disciplines of labs: netem, or a token bucket with nft."""
    netem = able("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
    yield Finding("kernel netem", State.OK, _yes(netem), "for labs, which otherwise use TBF, HTB and nft")
    for name, command in (
        ("TBF", ("tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "1mbit", "burst", "10kb", "limit", "9kb")),
        ("HTB", ("tc", "qdisc", "add", "dev", "lo", "root", "htb")),
        ("nft egress hook", ("nft", EGRESS_HOOK)),
        ("veth", ("ip", "link", "add", "type", "veth")),
    ):
        can = able(*command)
        yield judged(f"kernel {name}", can, _yes(can), f"yes, for labs: {KERNEL}", else_=State.WARNING)


def able(*command: str) -> bool:
    if succeeds(("unshare", "--net", *command)):
        return True
    if not succeeds(("unshare", "--net", "true")):
        raise HostError("cannot create a network namespace: run it as root, on a kernel with CONFIG_NET_NS")
    return False


def _yes(can: bool) -> str:
    return "yes" if can else "no"
