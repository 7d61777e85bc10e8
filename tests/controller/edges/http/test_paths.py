"""Roads are told whole, and one is had probed by who asks for it."""

from __future__ import annotations

import httpx
import pytest

from tests.controller.edges.http.checks import problem
from tests.controller.edges.http.desk import MEASURED, Desk


def test_roads_are_told_with_each_direction_and_in_the_status_too(http: httpx.Client, desk: Desk) -> None:
    assert http.get("/api/v1/roads").json() == []
    desk.snapshot = MEASURED
    lte, wifi = http.get("/api/v1/roads").json()
    assert [(way["direction"], way["bps"]) for way in lte["directions"]] == [("up", 9_980_000), ("down", None)]
    assert lte["health"]["windows"][0]["rtt_median_us"] == 41_300
    assert (wifi["why_not"], wifi["directions"]) == ("`measure` is not written at this uplink", [])
    assert http.get("/api/v1/status").json()["roads"] == [lte, wifi]


@pytest.mark.parametrize("wish", [{}, {"site": "shed"}, {"site": None, "link_bps": 20e6}])
def test_a_road_is_had_probed(http: httpx.Client, desk: Desk, wish: dict[str, object]) -> None:
    desk.snapshot = MEASURED
    answer = http.post("/api/v1/roads/lte/probe", json=wish)
    assert answer.status_code == 200 and answer.json()["done"] == ["lte of home is measured, both ways"]
    assert [way["ended"] for way in http.get("/api/v1/roads").json()[0]["directions"]] == [4, 4]
    assert desk.links == [wish.get("link_bps")]


def test_what_cannot_be_probed_is_refused_with_words(http: httpx.Client, desk: Desk) -> None:
    told = problem(http.post("/api/v1/roads/wire/probe", json={}), 409)
    assert told["detail"] == "no uplink wire leads to a site of ours; those that do: none"


@pytest.mark.parametrize("wish", [{"link_bps": 0}, {"link_bps": "fast"}, {"site": 3}, {"tries": 9}, []])
def test_what_is_malformed_is_refused_and_nothing_is_probed(http: httpx.Client, desk: Desk, wish: object) -> None:
    desk.snapshot = MEASURED
    problem(http.post("/api/v1/roads/lte/probe", json=wish), 422)
    problem(http.post("/api/v1/roads/lte/probe", content=b"{}", headers={"Content-Type": "text/plain"}), 415)
    assert desk.snapshot == MEASURED
