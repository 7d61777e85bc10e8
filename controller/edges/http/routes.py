# SPDX-License-Identifier: Apache-2.0
"""The routes that need more than a snapshot: overrides, paths, relays and enrolment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, Protocol
from urllib.parse import urlsplit

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictStr

from controller.edges.http.problems import described
from controller.edges.http.qr import rows
from controller.features.probing.view import PathView
from controller.features.relays.view import DestinationView, RelayView, TriedView
from controller.model.config import EVERYBODY, WRITTEN, Mode
from controller.model.overrides import MOST_RANGES, PortRange, RelayOverride
from controller.model.traffic import Address
from controller.protocol.enrolment import EnrolledView, Enroller, Invited, UnknownAgent
from controller.protocol.reports import Role
from controller.protocol.requests import Impossible, NotAnswered, OverrideResult, UnknownRelay, UnknownTerminal, Writer
from controller.readout.snapshot import BucketView, Snapshot

# Overrides


class RequestedMode(StrEnum):
    BICAST = Mode.BICAST
    SINGLE = Mode.SINGLE
    OFF = Mode.OFF
    AUTO = Mode.AUTO
    FILE = WRITTEN  # the configured mode

    @property
    def mode(self) -> Mode | None:
        return None if self is RequestedMode.FILE else Mode(self.value)


class ModeRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    mode: RequestedMode


class ActiveUplinkRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    uplink: StrictStr


def _whole(value: object) -> object:
    """Return 443 for 443.0: JSON has one number type."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class UsedRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    bytes: Annotated[int, Field(strict=True, ge=0, le=10**15), BeforeValidator(_whole)]


def add_overrides(app: FastAPI, writer: Writer) -> None:
    wrong = {409: "impossible", 415: "not JSON", 422: "malformed"}
    of_one = described({404: "no such terminal"}, wrong)
    of_budget = {404: "no such gateway or uplink", 409: "the uplink has no budget"}

    @app.put(
        "/api/v1/mode",
        summary="Set the mode of every terminal; `file` returns to gateway.yaml",
        responses=described(wrong),
    )
    def set_mode_of_all(wish: ModeRequest) -> OverrideResult:
        return writer.set_mode(EVERYBODY, wish.mode.mode)

    @app.put(
        "/api/v1/terminals/{name}/mode",
        summary="Set the mode of a terminal; `file` returns to gateway.yaml",
        responses=of_one,
    )
    def set_mode(name: str, wish: ModeRequest) -> OverrideResult:
        return writer.set_mode(_one(name), wish.mode.mode)

    of_a_class = "Set the mode of a class of traffic, {}; `file` returns to gateway.yaml"

    @app.put(
        "/api/v1/classes/{traffic}/mode",
        summary=of_a_class.format("for every terminal whose site has the class"),
        responses=described({404: "no such class"}, wrong),
    )
    def set_class_mode_of_all(traffic: str, wish: ModeRequest) -> OverrideResult:
        return writer.set_mode(EVERYBODY, wish.mode.mode, traffic)

    @app.put(
        "/api/v1/terminals/{name}/classes/{traffic}/mode",
        summary=of_a_class.format("for one terminal"),
        responses=described({404: "no such terminal or class"}, wrong),
    )
    def set_class_mode(name: str, traffic: str, wish: ModeRequest) -> OverrideResult:
        return writer.set_mode(_one(name), wish.mode.mode, traffic)

    @app.put(
        "/api/v1/terminals/{name}/active",
        summary="Set the active uplink of a terminal; `auto` leaves it to policies",
        responses=of_one,
    )
    def set_active(name: str, wish: ActiveUplinkRequest) -> OverrideResult:
        return writer.set_active(_one(name), wish.uplink)

    @app.delete(
        "/api/v1/gateways/{name}/uplinks/{uplink}/used",
        summary="Set what an uplink has used of its budget to 0, for example after a wrong date",
        responses=described(of_budget),
    )
    def reset_used(name: str, uplink: str) -> OverrideResult:
        return writer.set_used(name, uplink, 0)

    @app.put(
        "/api/v1/gateways/{name}/uplinks/{uplink}/used",
        summary="Set what an uplink has used of its budget, for example to undo a reset",
        responses=described(of_budget, wrong),
    )
    def set_used(name: str, uplink: str, wish: UsedRequest) -> OverrideResult:
        return writer.set_used(name, uplink, wish.bytes)

    def _one(name: str) -> str:
        if name == EVERYBODY:
            every = "PUT /api/v1/mode (`./bicast mode all MODE`) sets the mode of all"
            one_class = "PUT /api/v1/classes/CLASS/mode sets the mode of one class"
            raise UnknownTerminal(
                f"there is no terminal 'all': {every}, {one_class}; no request sets the uplink of all"
            )
        return name


# Paths

LEAST_BPS, MOST_BPS = 10_000, 10**12


class ProbeRequest(BaseModel):
    """`site` is either end's name, where uplinks of several have this one. `link_bps` is the rate of a path that is one
    link: what its hosts take for each byte is found by that, and kept."""

    model_config = ConfigDict(extra="forbid")
    site: StrictStr | None = None
    link_bps: Annotated[float, Field(strict=True, ge=LEAST_BPS, le=MOST_BPS)] | None = None


def add_paths(app: FastAPI, reader: Callable[[], Snapshot], writer: Writer) -> None:
    @app.get(
        "/api/v1/paths",
        summary="Paths between two sites of the file, and between terminals and access points: bandwidth and health",
    )
    def paths() -> tuple[PathView, ...]:
        return reader().paths

    @app.post(
        "/api/v1/paths/{uplink}/probe",
        summary="Probe a path now in both directions; it is finished when `ended` has grown and `running` is false",
        responses=described({409: "it cannot be measured", 415: "not JSON", 422: "malformed"}),
    )
    def probe(uplink: str, wish: ProbeRequest) -> OverrideResult:
        return writer.measure(uplink, wish.site, wish.link_bps)


# Relays

Port = Annotated[int, Field(strict=True, ge=1, le=65535), BeforeValidator(_whole)]


class PortRangeRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    first: Port
    last: Port


WEB = [PortRangeRequest(first=80, last=80), PortRangeRequest(first=443, last=443)]


class RelayRequest(BaseModel):
    """`ports` are the server ports that the relay may reach. `congestion` null: the kernel's default algorithm."""

    model_config = ConfigDict(extra="forbid")
    address: StrictStr
    port: Port = 443
    ports: Annotated[list[PortRangeRequest], Field(min_length=1, max_length=MOST_RANGES)] = WEB
    congestion: Annotated[str, Field(strict=True, pattern="^[a-z0-9_]{1,15}$")] | None = None


class DrainingRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    draining: StrictBool


class TrialRequest(BaseModel):
    """`address` is a destination: the answer says what the relay does for it."""

    model_config = ConfigDict(extra="forbid")
    address: StrictStr | None = None


class DestinationRequest(BaseModel):
    """`site` null: from every site with relayed terminals."""

    model_config = ConfigDict(extra="forbid")
    site: StrictStr | None = None


class Asker(Protocol):
    """Requests about relays. If a distance is unknown, agents measure it, which takes a few seconds."""

    def destination(self, address: Address, site: str | None = None) -> tuple[DestinationView, ...]: ...

    def try_relay(self, name: str, address: Address | None) -> TriedView: ...


class RelayWriter(Writer, Asker, Protocol):
    def alive(self) -> None:
        """Raise NotAnswered if the core does not answer."""

    def buckets(self) -> tuple[BucketView, ...]: ...


def add_relays(app: FastAPI, reader: Callable[[], Snapshot], writer: RelayWriter, enroller: Enroller) -> None:
    wrong = {409: "impossible", 415: "not JSON", 422: "malformed"}
    of_one = described({404: "no such relay"}, wrong)

    @app.get("/api/v1/relays", summary="All relays: their load, and how gateways reach them")
    def relays() -> tuple[RelayView, ...]:
        return reader().relays

    @app.get("/api/v1/relays/{name}", summary="One relay", responses=described({404: "no such relay"}))
    def relay(name: str) -> RelayView:
        there = {one.name: one for one in reader().relays}
        if name not in there:
            raise UnknownRelay(f"no relay is named {name!r}; there are: {', '.join(there) or 'none'}")
        return there[name]

    @app.put(
        "/api/v1/relays/{name}",
        summary="Add a relay: the agent of this name, once joined, acts as one",
        responses=described(wrong),
    )
    def set_relay(name: str, wish: RelayRequest) -> OverrideResult:
        enroller.enrolled()  # raises if this controller serves no agents, so it has no relays
        return writer.set_relay(name, _relay(wish))

    @app.delete(
        "/api/v1/relays/{name}",
        summary="Remove a relay: its connections end, and its agent is revoked",
        responses=described({404: "no such relay", 409: "impossible"}),
    )
    def remove_relay(name: str) -> OverrideResult:
        answer = writer.remove_relay(name)
        try:
            revoked = enroller.revoke(name)
        except UnknownAgent:  # its agent was never enrolled
            return answer
        except (Impossible, NotAnswered) as error:  # the relay is removed nevertheless
            return replace(answer, failed=(*answer.failed, str(error)))
        return replace(answer, done=(*answer.done, *revoked.done), failed=(*answer.failed, *revoked.failed))

    @app.put(
        "/api/v1/relays/{name}/draining",
        summary="Drain a relay, or resume it: while draining it accepts no new connections and keeps the open ones",
        responses=of_one,
    )
    def drain_relay(name: str, wish: DrainingRequest) -> OverrideResult:
        return writer.drain_relay(name, wish.draining)

    @app.post(
        "/api/v1/relays/{name}/trial",
        summary="Round trips from every gateway to a relay now, and its predicted gain for a destination",
        responses=of_one,
    )
    def try_relay(name: str, wish: TrialRequest) -> TriedView:
        return writer.try_relay(name, _address(wish.address) if wish.address is not None else None)

    @app.post(
        "/api/v1/destinations/{address}/choice",
        summary="The relay that a destination is reached through, and the reason; missing figures are measured first",
        responses=described(wrong),
    )
    def destination(address: str, wish: DestinationRequest) -> tuple[DestinationView, ...]:
        return writer.destination(_address(address), wish.site)


def _relay(wish: RelayRequest) -> RelayOverride:
    for each in wish.ports:
        if each.last < each.first:
            raise Impossible(f"ports {each.first} to {each.last}: expected the smaller one first")
    allowed = tuple(PortRange(each.first, each.last) for each in wish.ports)
    return RelayOverride(_address(wish.address), wish.port, allowed, wish.congestion)


def _address(text: str) -> Address:
    """Names are not resolved: their addresses change with time and client."""
    try:
        found = ip_address(text)
    except ValueError:
        raise Impossible(
            f"{text[:80]!r} is not an address: expected IPv4 or IPv6, such as 203.0.113.9, not a name"
        ) from None
    if getattr(found, "scope_id", None):
        raise Impossible(f"{text[:80]!r} has a zone, which has no meaning on other hosts")
    return found


# Enrolment: the agents' side answers, not the core


class TokenRequest(BaseModel):
    """`role` is needed only for a name that is neither in gateway.yaml nor a relay's.

    `terminal` names the terminal of a terminal's agent if the two names differ.
    """

    model_config = ConfigDict(extra="forbid")
    role: Role | None = None
    terminal: Annotated[str, Field(strict=True, max_length=63)] | None = None


@dataclass(frozen=True, slots=True)
class Invitation(Invited):
    """`line` is the command for the agent's host. If agents may join at any address of the controller, it says ADDRESS.
    `qr` is the line as a QR code: modules of 0 and 1, row by row.
    """

    line: str = ""
    qr: tuple[str, ...] = ()


def _invitation(invited: Invited) -> Invitation:
    at = urlsplit(f"//{invited.join}")
    anywhere = ip_address(at.hostname or "::").is_unspecified
    join = f"ADDRESS:{at.port}" if anywhere else invited.join
    line = f"bicast-agent join {join} --name {invited.name} --token {invited.token}"
    return Invitation(**asdict(invited), line=line, qr=rows(line))


def add_enrolling(app: FastAPI, enroller: Enroller) -> None:
    wrong = {409: "impossible", 415: "not JSON", 422: "malformed"}

    @app.get(
        "/api/v1/agents",
        summary="All agents ever enrolled",
        responses=described({409: "this controller has no listener for agents"}),
    )
    def agents() -> tuple[EnrolledView, ...]:
        return enroller.enrolled()

    @app.post(
        "/api/v1/agents/{name}/token",
        summary="Create a single-use token with which an agent of this name may join within 15 minutes; it "
        "replaces an earlier token",
        responses=described(wrong),
    )
    def invite(name: str, wish: TokenRequest) -> Invitation:
        return _invitation(enroller.invite(name, wish.role, wish.terminal))

    @app.delete(
        "/api/v1/agents/{name}/token",
        summary="Withdraw an agent's unused token; its certificate stays valid",
        responses=described({404: "no such agent", 409: "impossible"}),
    )
    def withdraw(name: str) -> OverrideResult:
        return enroller.withdraw(name)

    @app.delete(
        "/api/v1/agents/{name}",
        summary="Revoke an agent: its stream ends at once, and its certificate is refused from then on",
        responses=described({404: "no such agent", 409: "impossible"}),
    )
    def revoke(name: str) -> OverrideResult:
        return enroller.revoke(name)


def count_refusals(registry: CollectorRegistry, enroller: Enroller) -> None:
    registry.register(_Refusals(enroller))


class _Refusals(Collector):
    def __init__(self, enroller: Enroller) -> None:
        self._enroller = enroller

    def collect(self) -> Iterator[CounterMetricFamily]:
        refusals = CounterMetricFamily(
            "bicast_agent_refusals", "Refused connections of agents, by reason", labels=["reason"]
        )
        for reason, count in self._enroller.refusals().items():
            refusals.add_metric([reason], count)
        yield refusals
