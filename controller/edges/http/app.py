# SPDX-License-Identifier: Apache-2.0
"""The API's application. It decides nothing.

Every write but that of a token is a PUT of a whole value, a DELETE, or a single action: repetition changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.exceptions import HTTPException
from starlette.responses import Response

from controller.edges.http import problems
from controller.edges.http.access_control import Gate, TokenRefusals
from controller.edges.http.explanation import paragraphs
from controller.edges.http.metrics import registry_of
from controller.edges.http.page import add_page, is_public, web_files
from controller.edges.http.problems import described
from controller.edges.http.records import Records, add_records
from controller.edges.http.routes import (
    RelayWriter,
    add_enrolling,
    add_overrides,
    add_paths,
    add_relays,
    count_refusals,
)
from controller.edges.http.sessions import Access
from controller.edges.http.stream import Stream
from controller.features.caps.view import AccessPointView
from controller.program.program import (
    Action,
    Bucket,
    DecTtl,
    Group,
    Meter,
    Move,
    Output,
    OutputInPort,
    Program,
    Resubmit,
    SetField,
    ToController,
    ToGroup,
    Value,
)
from controller.protocol.enrolment import Enroller, NoAgents, UnknownAgent
from controller.protocol.requests import (
    Impossible,
    NotAnswered,
    UnknownClass,
    UnknownRelay,
    UnknownTerminal,
    UnknownUplink,
    unknown_terminal,
)
from controller.readout.picture import picture
from controller.readout.snapshot import CourseView, GatewayView, Snapshot, TerminalView

NAMES: dict[type[Action], str] = {
    SetField: "set_field",
    Move: "move",
    DecTtl: "dec_ttl",
    Output: "output",
    OutputInPort: "output_in_port",
    ToController: "to_controller",
    ToGroup: "to_group",
    Resubmit: "resubmit",
}


@dataclass(frozen=True, slots=True)
class ListedFlow:
    table: int
    priority: int
    match: dict[str, Value]
    actions: list[dict[str, Value]]  # {"do": "set_field", "field": "eth_dst", "value": "08:00:27:33:6d:a7"}
    goto: int | None
    meter: int | None


@dataclass(frozen=True, slots=True)
class ListedBucket:
    actions: list[dict[str, Value]]
    watch_port: int | None


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: int
    label: str
    kind: str
    buckets: list[ListedBucket]


@dataclass(frozen=True, slots=True)
class ListedProgram:
    gateway: str
    flows: list[ListedFlow]
    groups: list[ListedGroup]
    meters: list[Meter]


def listed(gateway: str, program: Program) -> ListedProgram:
    """Return flows in the order in which a switch matches: by table, then the higher priority first."""
    flows = sorted(program.flows.values(), key=lambda flow: (flow.table, -flow.priority, str(flow.match)))
    return ListedProgram(
        gateway,
        [
            ListedFlow(flow.table, flow.priority, dict(flow.match), _actions(flow.actions), flow.goto, flow.meter)
            for flow in flows
        ],
        [_group(program.groups[group_id]) for group_id in sorted(program.groups)],
        [program.meters[meter_id] for meter_id in sorted(program.meters)],
    )


def _group(group: Group) -> ListedGroup:
    return ListedGroup(group.group_id, group.label, group.kind, [_bucket(bucket) for bucket in group.buckets])


def _bucket(bucket: Bucket) -> ListedBucket:
    return ListedBucket(_actions(bucket.actions), bucket.watch_port)


def _actions(actions: tuple[Action, ...]) -> list[dict[str, Value]]:
    return [{"do": NAMES[type(action)], **asdict(action)} for action in actions]


NO_AGENTS = NoAgents()
DESCRIPTION = (
    "Reads the state of a bicast controller's gateways and terminals, and sets overrides for mode and active "
    "uplink. The answer to an override lists what was done and what failed. Every error is a problem document of "
    "RFC 9457."
)


class _Unknown(Exception):
    """The gateway does not exist or has no program yet."""


STATUSES: dict[type[Exception], int] = {
    _Unknown: 404,
    UnknownTerminal: 404,
    UnknownClass: 404,
    UnknownAgent: 404,
    UnknownRelay: 404,
    UnknownUplink: 404,
    Impossible: 409,
    NotAnswered: 503,
}


@dataclass(frozen=True, slots=True)
class Health:
    """The answer of a working core. The state of the gateways is at /api/v1/status."""

    status: str


def make_app(
    reader: Callable[[], Snapshot],
    program: Callable[[str], Program | None],
    decisions: Callable[[str], CourseView],
    writer: RelayWriter,
    token: str,
    enroller: Enroller = NO_AGENTS,
    records: Records | None = None,
    reader_token: str | None = None,
) -> FastAPI:
    """Make the application. Callbacks run in worker threads, may wait for the core and may raise NotAnswered.

    `program` is only called for gateways of the snapshot. Without `records`, nothing is kept over a restart.
    """
    records, files = records or Records.beside(None), web_files()
    app = FastAPI(
        title="bicast",
        version="1",
        description=DESCRIPTION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        responses=described(
            {401: "no token, or a wrong one", 429: "too many requests without the token"},
            {413: "the body is too large", 500: "the controller failed", 503: "the core did not answer in time"},
        ),
    )
    refusals = TokenRefusals()
    tokens = {token: Access.OPERATE} | ({reader_token: Access.READ} if reader_token is not None else {})
    app.add_middleware(Gate, tokens=tokens, refusals=refusals, records=records, is_public=partial(is_public, files))
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    _add_problems(app)
    registry = registry_of(reader, writer.buckets)
    registry.register(refusals)
    count_refusals(registry, enroller)
    _add_reads(app, reader, writer.alive, program, registry)
    _add_decisions(app, decisions)
    add_overrides(app, writer)
    add_paths(app, reader, writer)
    add_relays(app, reader, writer, enroller)
    add_enrolling(app, enroller)
    add_records(app, records)
    add_page(app, files, records.sessions, Stream(lambda: picture(reader(), records.events.last)))
    return app


def _add_problems(app: FastAPI) -> None:
    app.add_exception_handler(HTTPException, problems.on_http_exception)
    app.add_exception_handler(RequestValidationError, problems.on_invalid)
    app.add_exception_handler(Exception, problems.on_failure)
    for error, status in STATUSES.items():
        app.add_exception_handler(error, _say(status))


def _say(status: int) -> Callable[[Request, Exception], Response]:
    return lambda request, error: problems.problem(request.scope, status, str(error))


def _add_reads(
    app: FastAPI,
    reader: Callable[[], Snapshot],
    alive: Callable[[], None],
    program: Callable[[str], Program | None],
    registry: CollectorRegistry,
) -> None:
    def gateway_of(snapshot: Snapshot, name: str) -> GatewayView:
        for gateway in snapshot.gateways:
            if gateway.name == name:
                return gateway
        raise _Unknown(f"there is no gateway {name!r}; /api/v1/gateways lists all")

    @app.get("/healthz", summary="Does the core answer?")
    def health() -> Health:
        alive()
        return Health("ok")

    @app.get(
        "/metrics",
        summary="All metrics, for Prometheus",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/api/v1/status", summary="The whole state at one moment, with the state of the configuration")
    def status() -> Snapshot:
        return reader()

    @app.get("/api/v1/gateways", summary="All gateways")
    def gateways() -> tuple[GatewayView, ...]:
        return reader().gateways

    @app.get("/api/v1/gateways/{name}", summary="One gateway", responses=described({404: "no such gateway"}))
    def gateway(name: str) -> GatewayView:
        return gateway_of(reader(), name)

    @app.get("/api/v1/terminals", summary="All terminals")
    def terminals() -> tuple[TerminalView, ...]:
        return reader().terminals

    @app.get("/api/v1/terminals/{name}", summary="One terminal", responses=described({404: "no such terminal"}))
    def terminal(name: str) -> TerminalView:
        there = {one.name: one for one in reader().terminals}
        if name not in there:
            raise unknown_terminal(name, there)
        return there[name]

    @app.get("/api/v1/caps", summary="Access points, and the window limit of each of their terminals")
    def caps() -> tuple[AccessPointView, ...]:
        return reader().access_points

    @app.get(
        "/api/v1/program",
        summary="The programs of the switches: of all gateways that have one, or of one gateway",
        responses=described({404: "no such gateway, or it has no program yet"}),
    )
    def programs(gateway: str | None = None) -> list[ListedProgram]:
        if gateway is not None:
            return [program_of(gateway)]
        found = ((one.name, program(one.name)) for one in reader().gateways)
        return [listed(name, one) for name, one in found if one is not None]

    @app.get(
        "/api/v1/gateways/{name}/program",
        summary="The program of one switch",
        responses=described({404: "no such gateway, or it has no program yet"}),
    )
    def gateway_program(name: str) -> ListedProgram:
        return program_of(name)

    def program_of(name: str) -> ListedProgram:
        view = gateway_of(reader(), name)
        found = program(name)
        if found is None:
            raise _Unknown(f"gateway {name!r} has no program yet: no switch of dpid {view.dpid} has connected")
        return listed(name, found)


def _add_decisions(app: FastAPI, decisions: Callable[[str], CourseView]) -> None:
    @app.get(
        "/api/v1/terminals/{name}/decisions",
        summary="The uplink of a terminal and the reason: the health of its uplinks, and the last decisions "
        "with their results",
        responses=described({404: "no such terminal"}),
    )
    def terminal_decisions(name: str) -> CourseView:
        return decisions(name)

    @app.get(
        "/api/v1/terminals/{name}/why",
        summary="The same in sentences, as `bicast why` prints them: state, uplinks, then decisions, newest first",
        responses=described({404: "no such terminal"}),
    )
    def terminal_why(name: str) -> tuple[str, ...]:
        return paragraphs(decisions(name))


def _document(app: FastAPI) -> dict[str, Any]:
    """Return FastAPI's document, with problem details in place of its validation errors."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        for path in document["paths"].values():
            for operation in path.values():
                if "requestBody" not in operation:  # FastAPI adds a 422 for any parameter; strings are valid
                    operation["responses"].pop("422", None)
        components = document["components"]
        del components["schemas"]["HTTPValidationError"], components["schemas"]["ValidationError"]
        components["schemas"]["Problem"] = problems.SCHEMA
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        app.openapi_schema = document
    return app.openapi_schema
