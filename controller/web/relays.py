"""Relays: which there are, how they are wished for, and by which a destination is reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address
from typing import Annotated, Protocol

from fastapi import FastAPI
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictStr

from controller.enrolling import Enroller, UnknownAgent
from controller.relaying.views import DestinationView, RelayView, TriedView
from controller.relays import MOST_RANGES, PortRange, WishedRelay
from controller.snapshot import Snapshot
from controller.traffic import Address
from controller.web.problems import described
from controller.wishes import Answer, Impossible, NotAnswered, UnknownRelay, Writer


def _whole(value: object) -> object:
    """JSON has one kind of number: 443.0 is 443."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Port = Annotated[int, Field(strict=True, ge=1, le=65535), BeforeValidator(_whole)]


class RangeWish(BaseModel):
    model_config = ConfigDict(extra="forbid")
    first: Port
    last: Port


WEB = [RangeWish(first=80, last=80), RangeWish(first=443, last=443)]


class RelayWish(BaseModel):
    """`ports` are those of servers that it reaches, `congestion` is what it sends with: null is as its kernel likes."""

    model_config = ConfigDict(extra="forbid")
    address: StrictStr
    port: Port = 443
    ports: Annotated[list[RangeWish], Field(min_length=1, max_length=MOST_RANGES)] = WEB
    congestion: Annotated[str, Field(strict=True, pattern="^[a-z0-9_]{1,15}$")] | None = None


class DrainingWish(BaseModel):
    model_config = ConfigDict(extra="forbid")
    draining: StrictBool


class TrialWish(BaseModel):
    """`address` is a destination of which is told what the relay does for it."""

    model_config = ConfigDict(extra="forbid")
    address: StrictStr | None = None


class DestinationWish(BaseModel):
    """Null: from every site whose terminals are relayed."""

    model_config = ConfigDict(extra="forbid")
    site: StrictStr | None = None


class Asker(Protocol):
    """Where it is not known agents walk, for which a few seconds are waited."""

    def destination(self, address: Address, site: str | None = None) -> tuple[DestinationView, ...]: ...

    def try_relay(self, name: str, address: Address | None) -> TriedView: ...


class RelayWriter(Writer, Asker, Protocol):
    pass


def add_relays(app: FastAPI, reader: Callable[[], Snapshot], writer: RelayWriter, enroller: Enroller) -> None:
    wrong = {409: "impossible", 415: "not JSON", 422: "malformed"}
    of_one = described({404: "no such relay"}, wrong)

    @app.get("/api/v1/relays", summary="All relays: what they carry, and how gateways reach them")
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
        summary="Wish for a relay: the agent of this name, which joins as every agent does, then is one",
        responses=described(wrong),
    )
    def set_relay(name: str, wish: RelayWish) -> Answer:
        enroller.enrolled()  # who serves no agents can have no relays
        return writer.set_relay(name, _relay(wish))

    @app.delete(
        "/api/v1/relays/{name}",
        summary="Have a relay no more: its connections end, and its agent is revoked",
        responses=described({404: "no such relay", 409: "impossible"}),
    )
    def remove_relay(name: str) -> Answer:
        answer = writer.remove_relay(name)
        try:
            revoked = enroller.revoke(name)
        except UnknownAgent:  # it never came so far
            return answer
        except (Impossible, NotAnswered) as error:  # it is no relay any more all the same
            return replace(answer, failed=(*answer.failed, str(error)))
        return replace(answer, done=(*answer.done, *revoked.done), failed=(*answer.failed, *revoked.failed))

    @app.put(
        "/api/v1/relays/{name}/draining",
        summary="Whether a relay is to take nothing new, while what it carries goes on",
        responses=of_one,
    )
    def drain_relay(name: str, wish: DrainingWish) -> Answer:
        return writer.drain_relay(name, wish.draining)

    @app.post(
        "/api/v1/relays/{name}/trial",
        summary="How far a relay is from every gateway just now, and what it does for a destination",
        responses=of_one,
    )
    def try_relay(name: str, wish: TrialWish) -> TriedView:
        return writer.try_relay(name, _address(wish.address) if wish.address is not None else None)

    @app.post(
        "/api/v1/destinations/{address}/choice",
        summary="By which relay a destination is reached, and why; what is not known of it is found out",
        responses=described(wrong),
    )
    def destination(address: str, wish: DestinationWish) -> tuple[DestinationView, ...]:
        return writer.destination(_address(address), wish.site)


def _relay(wish: RelayWish) -> WishedRelay:
    for each in wish.ports:
        if each.last < each.first:
            raise Impossible(f"ports {each.first} to {each.last}: expected the lesser one first")
    allowed = tuple(PortRange(each.first, each.last) for each in wish.ports)
    return WishedRelay(_address(wish.address), wish.port, allowed, wish.congestion)


def _address(text: str) -> Address:
    """Names are not resolved: what they lead to changes, and everybody who asks is told something else."""
    try:
        found = ip_address(text)
    except ValueError:
        raise Impossible(
            f"{text[:80]!r} is no address: expected IPv4 or IPv6, such as 203.0.113.9, and no name"
        ) from None
    if getattr(found, "scope_id", None):
        raise Impossible(f"{text[:80]!r} has a zone, which nobody else knows")
    return found
