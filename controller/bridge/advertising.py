"""What the app itself answers to a neighbour solicitation, where no flow can.

That is duplicate address detection always, and all others on Open vSwitch's kernel datapath: responders.py says why.
"""

from __future__ import annotations

from controller.events import Advertise, Solicited
from controller.known import Observed
from controller.model import Address, Datapath, Site
from controller.tables.proxies import subnet_answered

EVERY_S = 0.9  # to one asker, who asks again after 1 s (RFC 4861, 10)


def advertisement(site: Site, observed: Observed, event: Solicited) -> Advertise | None:
    if not event.asker.is_unspecified and site.datapath is not Datapath.SYSTEM:
        return None
    name = observed.port_name(event.in_port)
    if not name:
        return None
    port = observed.ports[name]
    mac, proxied = _own_mac(site, name, port.mac, event.target), False
    if mac is None and (subnet := subnet_answered(site, name, event.target)):
        mac, proxied = subnet.mac or port.mac, True
    if mac is None:
        return None
    return Advertise(event.session, event.in_port, mac, event.target, event.asker, event.asker_mac, proxied)


def _own_mac(site: Site, port: str, port_mac: str, target: Address) -> str | None:
    for uplink in site.uplinks:
        if uplink.port == port and target in [own.ip for own in uplink.addresses]:
            return uplink.mac or port_mac
    for subnet in site.subnets:
        if port in site.inside_ports and target in [own.ip for own in subnet.gateways]:
            return subnet.mac or port_mac
    return None
