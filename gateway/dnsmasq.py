# SPDX-License-Identifier: Apache-2.0
"""dnsmasq's arguments for the LANs of this host: addresses, router advertisements and names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from controller.model.config import Site, Subnet
from controller.model.traffic import Interface
from gateway.lan import lans

LEASES = "leases"
LEASE_TIME = "1h"  # a name or an address that is no longer used is free after it
DOMAIN = "home.arpa"  # RFC 8375
# It listens at the devices alone, also at one that appears later. What the host has configured for another dnsmasq does
# not count.
ALWAYS = (
    *("--keep-in-foreground", "--conf-file=/dev/null", "--pid-file=", "--log-facility=-"),
    *("--bind-dynamic", "--except-interface=lo", "--dhcp-authoritative", "--enable-ra"),
    *(f"--domain={DOMAIN}", f"--local=/{DOMAIN}/", "--expand-hosts"),
)


def command(sites: Iterable[Site], directory: Path) -> tuple[str, ...]:
    """Return the command, or none if no site has a LAN."""
    served = [(site, subnet) for site in sites for subnet, _ in lans(site)]
    if not served:
        return ()
    each = (word for site, subnet in served for word in _of(site, subnet))
    return ("dnsmasq", *ALWAYS, f"--dhcp-leasefile={directory / LEASES}", *each)


def _of(site: Site, subnet: Subnet) -> Iterator[str]:
    if subnet.lan:
        yield f"--interface={subnet.lan.device}"
    for own in subnet.gateways:
        yield f"--dhcp-range={_range(own)}"
    for terminal in site.terminals:
        for at in terminal.addresses:
            if at.leased_to and at.subnet == subnet.name and at.address.version == 4:
                # of a name the same word is the device's and ours
                known_as = (at.leased_to,) if at.leased_to != terminal.name else ()
                yield f"--dhcp-host={','.join((*known_as, str(at.address), terminal.name))}"


def _range(own: Interface) -> str:
    network = own.network
    if network.version == 6:
        return f"{network.network_address},ra-stateless,ra-names,{network.prefixlen},{LEASE_TIME}"
    first, last = network.network_address + network.num_addresses // 4, network.broadcast_address - 1
    return f"{first},{last},{network.netmask},{LEASE_TIME}"
