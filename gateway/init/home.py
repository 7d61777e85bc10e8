# SPDX-License-Identifier: Apache-2.0
"""Home: it takes its files from the far site, prepares its bridge, and starts its agent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gateway import links, ovs
from gateway.host import HostError
from gateway.init import document, facts, services, steps
from gateway.init.document import HOME
from gateway.init.exchange import ExchangeError, called
from gateway.init.facts import HomeFacts
from gateway.init.far import FOR_HOME, HOME_WITHIN_S, REMEDY, TUNNELS_WITHIN_S
from gateway.init.invitation import Invitation
from gateway.init.made import Change, Made, Places
from gateway.init.services import AGENT, BRIDGE, LAN, Opening, Systemd

KEY_MODE, PUBLIC_MODE = 0o600, 0o644
PEM = re.compile(r"-----BEGIN [A-Z ]+-----\n[A-Za-z0-9+/=\n]+-----END [A-Z ]+-----\n", re.ASCII)
JOIN = re.compile(r"(?:[0-9.]{7,15}|\[[0-9a-f:.]{2,45}\]):[0-9]{1,5}")
TOKEN = re.compile(r"[\x21-\x7e]{1,512}")


class HomeInit:
    def __init__(self, places: Places, systemd: Systemd) -> None:
        """Raise HostError where this machine cannot be a home. Nothing is changed."""
        self._places, self._systemd, self._made = places, systemd, Made(places)
        steps.refuse_unprepared(places, self._made, systemd, ("dnsmasq",))

    def is_done(self) -> bool:
        """Return whether this machine is a home whose bridge is connected and whose tunnels exist."""
        if not self._made or not self._places.gateway.exists() or not self._systemd.is_active(AGENT):
            return False
        _, site = steps.site_of(self._places, HOME)
        bridge, there = ovs.read().bridge(site.bridge), {link.name for link in links.read() if link.up}
        connected = bridge is not None and any(each.connected for each in bridge.controllers)
        return connected and {uplink.port for uplink in site.uplinks} <= there

    def choose(self, uplinks: Sequence[str], lan: str | None) -> HomeFacts:
        """Return the uplinks and the LAN: those given, or those that this machine shows."""
        here = facts.devices()
        chosen = facts.uplinks(here, uplinks)
        device = facts.lan(here, chosen, lan)
        services.refuse_closed(self.openings(device, len(chosen)))
        return HomeFacts(chosen, device, self._network(here, device), facts.datapath())

    def openings(self, lan: str, uplinks: int) -> tuple[Opening, ...]:
        inside = (f"{document.LAN_PORT}-h", *document.tunnel_devices(uplinks))
        return tuple(Opening(device=each) for each in (lan, *inside))

    def _network(self, here: Sequence[facts.Device], device: str) -> str:
        """Return the LAN's network: the one that an earlier run chose, or a free one."""
        if self._made and self._places.gateway.exists():
            _, site = steps.site_of(self._places, HOME)
            for subnet in site.subnets:
                if subnet.lan:
                    return str(next(own for own in subnet.gateways if own.version == 4))
        own = next((each.addresses for each in here if each.name == device), ())
        if own:
            raise HostError(
                f"{device} has the address {own[0]}, which bicast would not keep: take it out of this machine's "
                "network configuration, or name another device with --lan"
            )
        return facts.lan_network(here, facts.routed_networks())

    def plan(self, chosen: HomeFacts, invited: Invitation) -> Iterator[str]:
        """Yield sentences about what will be done, for --dry-run."""
        uplinks = ", ".join(f"{name} ({device})" for name, device in chosen.uplinks)
        yield f"would ask the far site at {invited.where} for its files; the line works once, so this did not use it"
        yield f"would use the uplinks {uplinks}, the first one preferred"
        yield f"would serve {chosen.network} at {chosen.lan}"
        yield f"would write {self._places.gateway} and {self._places.defaults}"
        yield f"would write {', '.join(FOR_HOME)} in {self._places.tls}"
        if services.is_tree():
            yield f"would copy the units of bicast to {self._places.units}"
        yield f"would create the bridge br-home with datapath {chosen.datapath}"
        yield f"would enable and start {BRIDGE}, {LAN} and {AGENT}"

    def join(self, invited: Invitation, chosen: HomeFacts, say: Callable[[str], None], report: steps.Report) -> None:
        with called(invited, chosen.message()) as channel:
            say(f"the far site {invited.where} prepares itself")
            try:
                answer = channel.receive(HOME_WITHIN_S)
            except ExchangeError as error:
                raise ExchangeError(
                    f"{error}: the line works once, for 15 minutes, for one home; run `bicast init --far` again on the "
                    "rented machine for a new one"
                ) from error
            if "refused" in answer:
                raise HostError(str(answer["refused"])[:500])
            steps.carry_out(self._changes(answer, chosen), report)
            channel.send({"started": True})
            say("waiting for the tunnels")
            while not (news := channel.receive(TUNNELS_WITHIN_S + 60)).get("done"):
                pass
            missing = news.get("missing")
        if missing:
            listed = "; ".join(map(str, missing)) if isinstance(missing, list) else str(missing)
            raise HostError(f"not ready yet: {listed[:500]}; {REMEDY}")

    def _changes(self, answer: Mapping[str, Any], chosen: HomeFacts) -> Iterator[Change]:
        places, made, systemd = self._places, self._made, self._systemd
        text, files, where, token = bundle(answer)
        names = (BRIDGE, LAN, AGENT)
        yield from steps.configuration(places, made, text, HOME)
        made.make_directory(places.tls, 0o700)
        for name in FOR_HOME:
            yield made.file(places.tls / name, files[name], KEY_MODE if name.endswith(".key") else PUBLIC_MODE)
        yield from services.units(places, made, systemd, names, tls=False)
        own = (chosen.lan, "br-home", "tn-*", "bicast-*", f"{document.LAN_PORT}*")
        yield from services.unmanaged(places, made, own)
        yield from steps.bridged(places, HOME)
        yield from services.opened(made, self.openings(chosen.lan, len(chosen.uplinks)))
        yield from services.running(made, systemd, (BRIDGE, LAN), again=False)
        yield Change("agent home", "no certificate", "joined", lambda: services.join(places, where, HOME, token))
        yield from services.running(made, systemd, (AGENT,), again=True)


def bundle(answer: Mapping[str, Any]) -> tuple[str, dict[str, str], str, str]:
    """Return gateway.yaml, TLS files, address and token of an answer. Anything unexpected in it is refused."""
    text, files, where, token = (answer.get(key) for key in ("gateway", "files", "join", "token"))
    good = (
        isinstance(text, str)
        and isinstance(files, dict)
        and set(files) == set(FOR_HOME)
        and all(isinstance(each, str) and PEM.fullmatch(each) for each in files.values())
        and isinstance(where, str)
        and JOIN.fullmatch(where)
        and isinstance(token, str)
        and TOKEN.fullmatch(token)
    )
    if not good:
        raise HostError("the far site sent an incomplete answer: both machines need the same bicast version")
    return str(text), dict(files or {}), str(where), str(token)
