# SPDX-License-Identifier: Apache-2.0
"""The kernel features that interception needs. The agent creates the devices."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from gateway.checks.kernel import KERNEL, MPTCP_SOCKET, able
from gateway.finding import Finding, State, judged
from gateway.scene import CheckContext

TPROXY = "table inet t { chain c { type filter hook prerouting priority mangle; meta l4proto tcp tproxy to :1; }; }"


def kernel(context: CheckContext) -> Iterator[Finding]:
    names = [site.name for site in context.sites if site.relaying]
    if not names:
        return
    for name, command in (
        ("relaying by MPTCP", (sys.executable, "-c", MPTCP_SOCKET)),
        ("nft TPROXY", ("nft", TPROXY)),
        ("veth for relaying", ("ip", "link", "add", "type", "veth")),
    ):
        can = able(*command)
        expected = f"yes, for `relaying` of {', '.join(names)}: {KERNEL}"
        yield judged(f"kernel {name}", can, "yes" if can else "no", expected, else_=State.BAD)
