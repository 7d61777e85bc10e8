# SPDX-License-Identifier: Apache-2.0
"""The steps that remove everything that bicast made, also pure."""

from __future__ import annotations

from collections.abc import Set

from controller.model.config import Site
from gateway import host_uplink, internet_exit, lan
from gateway.host import ovs_vsctl
from gateway.plan import made_by_us
from gateway.step import BridgePlan, HostState, Refusal, Step


def removal(site: Site, seen: HostState, going: Set[str]) -> BridgePlan:
    ovs, bridge = seen.ovs, seen.ovs.bridge(site.bridge)
    ends = (internet_exit, host_uplink, lan)
    steps = [step for each in ends for step in each.removal(site, bridge, seen)]
    if bridge is None:
        return BridgePlan(site.name, (*steps, Step(f"bridge {site.bridge}", "absent", "absent")))
    if not bridge.made:
        sentence = f"{bridge.name} was not created by bicast: to delete it, run ovs-vsctl del-br {bridge.name}"
        return BridgePlan(site.name, (), (Refusal(f"bridge {bridge.name}", sentence, forcible=False),))
    steps.append(Step(f"bridge {bridge.name}", "present", "absent", (ovs_vsctl("del-br", bridge.name),)))
    for port in bridge.ports:
        if port.offloads_taken and port.name not in made_by_us(site):
            command = ("ethtool", "-K", port.name, *(word for each in port.offloads_taken for word in (each, "on")))
            steps.append(Step(f"{port.name} offloads", "off", " ".join(port.offloads_taken), (command,)))
    if ovs.tls and ovs.tls.made and not any(other.made for other in ovs.bridges if other.name not in going):
        steps.append(Step("switch TLS", ovs.tls.certificate, "none", (ovs_vsctl("del-ssl"),)))
    return BridgePlan(site.name, tuple(steps))
