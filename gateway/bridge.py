# SPDX-License-Identifier: Apache-2.0
"""Carry out a plan. All refusals come before the first change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from controller.model.config import Config, Datapath, Site
from gateway import host_uplink, internet_exit, lan, links, ovs, sending, tls
from gateway.host import HostError, ovs_vsctl, run, succeeds, wait_for
from gateway.plan import CONTROLLER_COLUMNS, made_by_us, plan, unmade
from gateway.ports import awaited, made_by_agent, read_by_us, unopened
from gateway.step import BridgePlan, HostState, Refusal, Step
from gateway.undo import removal

UNABLE = "Error detected while setting up"  # ovs-vsctl prints it and exits with 0


class UnsafeChange(HostError):
    """The plan would harm something outside of bicast."""

    def __init__(self, refusals: tuple[Refusal, ...]) -> None:
        forced = "" if any(not refusal.forcible for refusal in refusals) else ". --force does it anyway"
        super().__init__("; ".join(refusal.sentence for refusal in refusals) + forced)
        self.refusals = refusals


@dataclass(frozen=True, slots=True)
class Work:
    """The steps to carry out. No step was refused."""

    plans: tuple[BridgePlan, ...]
    missing: tuple[str, ...]  # ports without an interface so far
    awaited: tuple[str, ...]  # missing ports that agents create

    @property
    def steps(self) -> tuple[Step, ...]:
        # plans repeat the switch's shared certificate
        return tuple(dict.fromkeys(step for each in self.plans for step in each.steps))


@dataclass(frozen=True, slots=True)
class StepOutcome:
    step: Step
    messages: tuple[str, ...]

    @property
    def changed(self) -> bool:
        return bool(self.step.commands)

    @property
    def failed(self) -> bool:
        """Return whether the step failed. ovs-vsctl also succeeds when ovs-vswitchd cannot apply the change."""
        return bool(self.step.fault) or any(each in line for line in self.messages for each in (UNABLE, sending.FAILED))


def look(sites: Iterable[Site]) -> HostState:
    here = {link.name: link for link in links.read()}
    ours = {name for site in sites for name in read_by_us(site)}
    offloads = {name: links.offloads(name) for name in sorted(ours & here.keys())}
    ends = {port: internet_exit.read(site, port, here) for site in sites if (port := internet_exit.port_of(site))}
    for site in sites:
        ends |= lan.read(site, here) | host_uplink.read(site, here)
    return HostState(ovs.read(), here, offloads, sending.room() if ours else None, ends)


def preparation(config: Config, sites: tuple[Site, ...], *, force: bool = False) -> Work:
    seen = look(sites)
    files = tls.files(config.settings.tls, config, sites, seen.ovs) if config.settings.tls else None
    plans = tuple(plan(site, config.settings, files, seen) for site in sites)
    refusals = tuple(dict.fromkeys(refusal for each in plans for refusal in each.refusals))
    if any(not (force and refusal.forcible) for refusal in refusals):
        raise UnsafeChange(refusals)
    if files:
        making = tuple(
            Step(f"{made.pair.role} certificate {made.pair.certificate}", made.found, "present", made.commands)
            for made in tls.makings(files, config.settings)
        )
        plans = (BridgePlan("tls", making), *plans)
    return Work(plans, absent(sites, seen), tuple(name for site in sites for name in awaited(site, seen.links)))


def undoing(sites: tuple[Site, ...]) -> Work:
    seen = look(sites)
    plans = tuple(removal(site, seen, going={each.bridge for each in sites}) for site in sites)
    refusals = tuple(refusal for each in plans for refusal in each.refusals)
    if refusals:
        raise UnsafeChange(refusals)
    return Work(plans, (), ())


def absent(sites: Iterable[Site], seen: HostState) -> tuple[str, ...]:
    """Return ports missing from host and OVS that nobody creates. OVS patch ports are no interfaces."""
    opened = {port.name for bridge in seen.ovs.bridges for port in bridge.ports if port.number}
    names = dict.fromkeys(
        name for site in sites for name in site.ports if name not in {*made_by_agent(site), *made_by_us(site)}
    )
    return tuple(name for name in names if name not in seen.links and name not in opened)


def failures(sites: Iterable[Site]) -> tuple[str, ...]:
    """Return failures that Open vSwitch hides: it reports success for what it could not create."""
    here = {link.name for link in links.read()}
    for made in (name for site in sites for name in made_by_agent(site) if name in here):
        # The agent may have made it just now, and Open vSwitch notices a device some time later.
        succeeds(ovs_vsctl("wait-until", "Interface", made, "ofport>0"))
    seen = ovs.read()
    failed: list[str] = []
    for site in sites:
        bridge = seen.bridge(site.bridge)
        if bridge and not bridge.there:
            failed.append(f"{site.bridge}: {unmade(bridge)}")
        elif bridge:
            names = (name for name in site.ports if name not in awaited(site, here))
            ports = (port for name in names if (port := bridge.port(name)))
            failed += [f"{port.name}: {unopened(port)}" for port in ports if not port.number]
            if site.datapath is Datapath.NETDEV and any(port.number for port in bridge.ports) and has_small_buffer():
                failed.append(f"{site.bridge}: packets queued on one uplink block the other uplinks")
    return tuple(failed)


def await_controllers(sites: Iterable[Site]) -> None:
    """Wait until each bridge is connected, then write `max_backoff` again (gateway/plan.py)."""
    for site in sites:
        wait_for(("ovs-vsctl", "wait-until", "Controller", site.bridge, "is_connected=true"))
        right = CONTROLLER_COLUMNS["max_backoff"]
        for backoff in (str(int(right) + 1), right):
            run(ovs_vsctl("set", "Controller", site.bridge, f"max_backoff={backoff}"))


def has_small_buffer() -> bool:
    return (sending.room() or 0) < sending.ROOM_BYTES


def carry_out(work: Work) -> Iterator[StepOutcome]:
    for step in work.steps:
        messages = tuple(run(command).complaint for command in step.commands)
        yield StepOutcome(step, tuple(line for line in messages if line and not (step.awaits and UNABLE in line)))
