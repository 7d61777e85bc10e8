# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch and its bridges: whether `bridge` would have something to do, and whether the controller leads them."""

from __future__ import annotations

from collections.abc import Iterator

from gateway import bridge
from gateway.finding import Finding, State, judged
from gateway.host import START_OVS, HostError
from gateway.plan import plan, target
from gateway.ports import awaited, tunnels_of
from gateway.scene import CheckContext


def answers(scene: CheckContext) -> Iterator[Finding]:
    expected = "it answers"
    try:
        version = scene.seen.ovs.version
    except HostError as silent:
        state = State.BAD if scene.sites else State.WARNING
        # the mending line says how to start it
        found = (
            str(silent).replace(f": start it ({START_OVS}), or set", "; set").replace(f": start it ({START_OVS})", "")
        )
        yield Finding("Open vSwitch", state, found, expected, START_OVS)
    else:
        yield Finding("Open vSwitch", State.OK, f"answers, {version}".rstrip(", "), expected)


def prepared(scene: CheckContext) -> Iterator[Finding]:
    """The plan of `bridge`, read instead of carried out."""
    if scene.config is None:
        return
    for site in scene.sites:
        made = plan(site, scene.config.settings, scene.files, scene.seen)
        for step in made.steps:
            found = f"{step.found} ({step.fault})" if step.fault else step.found
            # what has no command cannot be mended by doing it once more
            mend = scene.prepare if step.commands else None
            yield judged(step.name, step.right, found, step.wanted, mend, else_=State.BAD)
        for refusal in made.refusals:
            yield Finding(refusal.name, State.BAD, refusal.sentence, "no side effects", refusal.mend)


def interfaces(scene: CheckContext) -> Iterator[Finding]:
    missing = bridge.absent(scene.sites, scene.seen)
    for name in missing:
        yield Finding(
            f"{name} interface",
            State.WARNING,
            "not there",
            "an interface of this name (`ip -brief link` lists them): the bridge adds it as soon as it appears",
        )
    for site in scene.sites:
        for name in awaited(site, scene.links):
            yield Finding(
                f"{name} {'tunnel' if name in tunnels_of(site) else 'relaying'}",
                State.WARNING,
                "not there yet",
                f"created by the agent enrolled as {site.name}: bicast-agent run --role gateway, on this host",
            )


def connected(scene: CheckContext) -> Iterator[Finding]:
    if scene.config is None:
        return
    wanted = target(scene.config.settings)
    for site in scene.sites:
        seen = scene.seen.ovs.bridge(site.bridge)
        for each in seen.controllers if seen else ():
            found = "connected" if each.connected else f"not connected ({each.last_error or 'no reason given'})"
            expected = (
                f"connected to {wanted}: ./bicast run {scene.file} serves it; installed flows keep forwarding "
                "until then"
            )
            yield judged(f"{site.bridge} connection", each.connected, found, expected, else_=State.WARNING)
