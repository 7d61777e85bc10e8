# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch, its bridges, and the connection to the controller."""

from __future__ import annotations

from collections.abc import Iterator

from gateway import bridge
from gateway.finding import Finding, State, judged
from gateway.host import START_OVS, HostError
from gateway.plan import plan, target
from gateway.ports import awaited, tunnels_of
from gateway.scene import CheckContext


def answers(context: CheckContext) -> Iterator[Finding]:
    expected = "it answers"
    try:
        version = context.seen.ovs.version
    except HostError as silent:
        state = State.BAD if context.sites else State.WARNING
        found = (
            str(silent).replace(f": start it ({START_OVS}), or set", "; set").replace(f": start it ({START_OVS})", "")
        )
        yield Finding("Open vSwitch", state, found, expected, START_OVS)
    else:
        yield Finding("Open vSwitch", State.OK, f"answers, {version}".rstrip(", "), expected)


def prepared(context: CheckContext) -> Iterator[Finding]:
    if context.config is None:
        return
    for site in context.sites:
        made = plan(site, context.config.settings, context.files, context.seen)
        for step in made.steps:
            found = f"{step.found} ({step.fault})" if step.fault else step.found
            # without a command, repetition repairs nothing
            mend = context.prepare if step.commands else None
            yield judged(step.name, step.right, found, step.wanted, mend, else_=State.BAD)
        for refusal in made.refusals:
            yield Finding(refusal.name, State.BAD, refusal.sentence, "no side effects", refusal.mend)


def interfaces(context: CheckContext) -> Iterator[Finding]:
    missing = bridge.absent(context.sites, context.seen)
    for name in missing:
        yield Finding(
            f"{name} interface",
            State.WARNING,
            "not there",
            "an interface of this name (`ip -brief link` lists them): the bridge adds it as soon as it appears",
        )
    for site in context.sites:
        for name in awaited(site, context.links):
            yield Finding(
                f"{name} {'tunnel' if name in tunnels_of(site) else 'relaying'}",
                State.WARNING,
                "not there yet",
                f"created by the agent enrolled as {site.name}: bicast-agent run --role gateway, on this host",
            )


def connected(context: CheckContext) -> Iterator[Finding]:
    if context.config is None:
        return
    wanted = target(context.config.settings)
    for site in context.sites:
        seen = context.seen.ovs.bridge(site.bridge)
        for each in seen.controllers if seen else ():
            found = "connected" if each.connected else f"not connected ({each.last_error or 'no reason given'})"
            expected = (
                f"connected to {wanted}: ./bicast run {context.file} serves it; installed flows keep forwarding "
                "until then"
            )
            yield judged(f"{site.bridge} connection", each.connected, found, expected, else_=State.WARNING)
