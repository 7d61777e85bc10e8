# SPDX-License-Identifier: Apache-2.0
"""The smallest working gateway, written by hand to test the stage. It is no part of the product.

Ports as in topologies/paper.yaml: 1 gw-c1, 2 gw-c2, 3 gw-wifi, 4 gw-lte.
"""

from __future__ import annotations

from lab.stage import ovs
from topologies.paper import BRIDGE

CLIENT = {1: ("192.168.110.3", "08:00:27:86:0d:bc"), 2: ("192.168.210.3", "08:00:27:ec:c0:04")}
OWN = {
    1: ("192.168.110.2", "08:00:27:f9:49:62"),
    2: ("192.168.210.2", "08:00:27:2a:a0:c3"),
    3: ("192.168.100.2", "08:00:27:81:6b:cf"),
    4: ("192.168.200.2", "08:00:27:e7:c6:f8"),
}
NEXT_HOP = {3: "08:00:27:33:6d:a7", 4: "08:00:27:e1:9e:e3"}
SIDES = {1: 3, 2: 4}


def install(bicast: bool) -> None:
    """Install flows and groups that send each subflow address over its own uplink, or over both with `bicast`."""
    ovs.ofctl("del-flows", BRIDGE)
    ovs.ofctl("del-groups", BRIDGE)
    ovs.ofctl("add-groups", BRIDGE, "-", given="\n".join(_groups(bicast)) + "\n")
    ovs.ofctl("add-flows", BRIDGE, "-", given="\n".join(_flows()) + "\n")
    ovs.await_caches()


def _groups(bicast: bool) -> list[str]:
    groups = []
    for inside, own_uplink in SIDES.items():
        uplinks = NEXT_HOP if bicast else [own_uplink]
        buckets = [f"bucket={_rewrite(OWN[uplink][1], NEXT_HOP[uplink])},output:{uplink}" for uplink in uplinks]
        groups.append(f"group_id={inside},type=all," + ",".join(buckets))
    return groups


def _rewrite(source: str, destination: str) -> str:
    return f"set_field:{source}->eth_src,set_field:{destination}->eth_dst"


def _flows() -> list[str]:
    flows = []
    for port, (address, mac) in OWN.items():
        number = f"0x{''.join(f'{int(part):02x}' for part in address.split('.'))}"
        flows.append(
            f"priority=100,in_port={port},arp,arp_op=1,arp_tpa={address},actions="
            "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],"
            f"set_field:{mac}->eth_src,load:2->NXM_OF_ARP_OP[],"
            "move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],"
            f"set_field:{mac}->arp_sha,load:{number}->NXM_OF_ARP_SPA[],in_port"
        )
    for inside, (address, mac) in CLIENT.items():
        flows.append(f"priority=50,in_port={inside},ip,nw_src={address},actions=dec_ttl,group:{inside}")
        for uplink in NEXT_HOP:
            rewrite = _rewrite(OWN[inside][1], mac)
            flows.append(f"priority=50,in_port={uplink},ip,nw_dst={address},actions=dec_ttl,{rewrite},output:{inside}")
    return flows
