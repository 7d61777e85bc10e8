# SPDX-License-Identifier: Apache-2.0
"""The list of checks and their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gateway.checks import (
    caps,
    certificates,
    clock,
    control,
    kernel,
    ports,
    relaying,
    routes,
    switch,
    sysctls,
    tunnels,
    versions,
)
from gateway.finding import Finding, State
from gateway.host import HostError
from gateway.scene import CheckContext

Check = Callable[[CheckContext], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    versions.tools,
    versions.versions,
    kernel.mptcp,
    kernel.datapath,
    kernel.lab,
    caps.hands,
    clock.clock,
    sysctls.rp_filter,
    sysctls.forwarding,
    sysctls.mptcp,
    routes.return_routes,
    switch.answers,
    switch.prepared,
    switch.interfaces,
    switch.connected,
    ports.addresses,
    ports.stuck_offloads,
    ports.mtu,
    tunnels.kernel,
    tunnels.underlays,
    tunnels.apart,
    tunnels.routes,
    tunnels.rp_filter,
    tunnels.taken,
    relaying.kernel,
    control.listeners,
    control.reached,
    control.drops,
    certificates.certificates,
)
NEEDS_OVS = (switch.prepared, switch.interfaces, switch.connected, ports.stuck_offloads)


def examine(context: CheckContext) -> Iterator[Finding]:
    """Yield the findings of all checks. A check that cannot run is one finding. So is a silent Open vSwitch."""
    silent = False
    for check in CHECKS:
        if check in NEEDS_OVS and (silent or not context.sites):
            continue
        try:
            for finding in check(context):
                silent = silent or (check is switch.answers and finding.state is not State.OK)
                yield finding
        except HostError as unable:
            yield Finding(check.__name__.replace("_", " "), State.BAD, str(unable), "something to look at")
