"""What was measured of roads, as the state file has it. Its times are Unix seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from controller import kept
from controller.config import MOST_SITES, MOST_TERMINALS, MOST_UPLINKS
from controller.configuration.document import Place
from controller.measuring.book import Page
from controller.measuring.pace import Sent
from controller.measuring.turns import Heading
from controller.policy.fusing import Measured, Method
from controller.policy.rates import Alpha, Rate

Pages = Mapping[Heading, Page]

MOST_HEADINGS = MOST_SITES * (MOST_UPLINKS + 2 * MOST_TERMINALS)  # of an uplink's road two sites have one
MOST_METHODS = 16
METHODS = {str(each): each for each in Method}
DIRECTIONS = {"up": False, "down": True}


def written(pages: Pages) -> list[dict[str, Any]]:
    return [
        {
            "site": site,
            "uplink": uplink,
            "direction": "down" if down else "up",
            "alpha": asdict(page.alpha) if page.alpha else None,
            "measured": [{"method": one.method, "at": one.at, **asdict(one.rate)} for one in page.measured],
            "spent": asdict(page.spent) if page.spent else None,
        }
        for ((site, uplink), down), page in sorted(pages.items())
    ]


def read(place: Place) -> dict[Heading, Page]:
    return dict(_page(each) for each in place.each(MOST_HEADINGS, "directions of roads"))


def _page(place: Place) -> tuple[Heading, Page]:
    keys = place.mapping(required=("site", "uplink", "direction", "alpha", "measured", "spent"))
    alpha = None if keys["alpha"].value is None else _alpha(keys["alpha"])
    measured = tuple(_measured(each) for each in keys["measured"].each(MOST_METHODS, "methods"))
    spent = None if keys["spent"].value is None else _spent(keys["spent"])
    at = (keys["site"].text(), keys["uplink"].text())
    return (at, keys["direction"].choice(DIRECTIONS)), Page(alpha=alpha, measured=measured, spent=spent)


def _alpha(place: Place) -> Alpha:
    keys = place.mapping(required=("s_per_byte", "error"))
    return Alpha(kept.number(keys["s_per_byte"]), kept.number(keys["error"]))


def _measured(place: Place) -> Measured:
    keys = place.mapping(required=("method", "at", "bps", "least_bps", "most_bps"))
    bps, least, most = (kept.number(keys[name]) for name in ("bps", "least_bps", "most_bps"))
    if not 0 < least <= bps <= most:
        raise place.wrong("a rate above 0, between its least and its most")
    return Measured(keys["method"].choice(METHODS), Rate(bps, least, most), kept.moment(keys["at"]))


def _spent(place: Place) -> Sent:
    keys = place.mapping(required=("at", "bytes"))
    return Sent(kept.moment(keys["at"]), kept.count(keys["bytes"]))
