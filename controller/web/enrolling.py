"""Enrolling agents, and who is: the part of the API that asks the agents' side and not the core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector
from pydantic import BaseModel, ConfigDict, Field

from controller.enrolling import EnrolledView, Enroller, Invited
from controller.reports import Role
from controller.web.problems import described
from controller.wishes import Answer


class TokenWish(BaseModel):
    """`role` is needed for a name alone that gateway.yaml does not have and that is no relay. `terminal` is whom a
    terminal's agent speaks for, where that terminal has another name."""

    model_config = ConfigDict(extra="forbid")
    role: Role | None = None
    terminal: Annotated[str, Field(strict=True, max_length=63)] | None = None


def add_enrolling(app: FastAPI, enroller: Enroller) -> None:
    wrong = {409: "impossible", 415: "not JSON", 422: "malformed"}

    @app.get(
        "/api/v1/agents",
        summary="All agents that were ever enrolled",
        responses=described({409: "this controller serves no agents"}),
    )
    def agents() -> tuple[EnrolledView, ...]:
        return enroller.enrolled()

    @app.post(
        "/api/v1/agents/{name}/token",
        summary="Make the token with which an agent of this name may join, once and soon; it ends the one before",
        responses=described(wrong),
    )
    def invite(name: str, wish: TokenWish) -> Invited:
        return enroller.invite(name, wish.role, wish.terminal)

    @app.delete(
        "/api/v1/agents/{name}",
        summary="Revoke an agent: its stream ends at once, and its certificate is refused from then on",
        responses=described({404: "no such agent", 409: "impossible"}),
    )
    def revoke(name: str) -> Answer:
        return enroller.revoke(name)


def count_refusals(registry: CollectorRegistry, enroller: Enroller) -> None:
    registry.register(_Refusals(enroller))


class _Refusals(Collector):
    def __init__(self, enroller: Enroller) -> None:
        self._enroller = enroller

    def collect(self) -> Iterator[CounterMetricFamily]:
        refusals = CounterMetricFamily(
            "bicast_agent_refusals", "Who came as an agent and was refused, by the reason", labels=["reason"]
        )
        for reason, count in self._enroller.refusals().items():
            refusals.add_metric([reason], count)
        yield refusals
