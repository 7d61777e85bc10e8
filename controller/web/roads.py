"""Roads between sites, as they were measured: what the API tells of them, and how one is had probed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field, StrictStr

from controller.measuring.views import RoadView
from controller.snapshot import Snapshot
from controller.web.problems import described
from controller.wishes import Answer, Writer

LEAST_BPS, MOST_BPS = 10_000, 10**12


class ProbeWish(BaseModel):
    """`site` is either end's name, where uplinks of several have this one. `link_bps` is the rate of a road that is one
    link: what its hosts take for each byte is found by that, and kept."""

    model_config = ConfigDict(extra="forbid")
    site: StrictStr | None = None
    link_bps: Annotated[float, Field(strict=True, ge=LEAST_BPS, le=MOST_BPS)] | None = None


def add_roads(app: FastAPI, reader: Callable[[], Snapshot], writer: Writer) -> None:
    @app.get(
        "/api/v1/roads", summary="Uplinks between two sites of ours, and terminals' air: what they carry, how they fare"
    )
    def roads() -> tuple[RoadView, ...]:
        return reader().roads

    @app.post(
        "/api/v1/roads/{uplink}/probe",
        summary="Have a road probed at once, both ways; it has been when `ended` has grown and it is not `running`",
        responses=described({409: "it cannot be measured", 415: "not JSON", 422: "malformed"}),
    )
    def probe(uplink: str, wish: ProbeWish) -> Answer:
        return writer.measure(uplink, wish.site, wish.link_bps)
