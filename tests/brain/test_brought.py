"""In mode auto, what an end has of copies: what the active uplink did not bring of what another one did."""

from __future__ import annotations

from typing import Any

import pytest

from controller.model import Mode
from controller.policy.adaptive import CLEAN_S
from controller.steering.logbook import Entry
from tests.brain.test_ends import Ends
from tests.brain.test_mirrors import document
from tests.fakes.eliminator import FakeEliminator

SECONDS = 2 * int(CLEAN_S)


def auto(**modes: str) -> dict[str, Any]:
    written = document()
    for name, terminal in written["sites"]["home"]["terminals"].items():
        terminal["mode"] = modes.get(name, "auto")
    written["sites"]["home"]["terminals"]["phone"]["default_uplink"] = "wifi"
    return written


class Copied(Ends):
    """Both ends let the first of several copies pass, and far's is told of what comes in."""

    def __init__(self, written: dict[str, Any] | None = None) -> None:
        super().__init__(written or auto())
        self.agent("home")
        self.far: FakeEliminator = self.agent("far")
        self.second()

    def comes(self, seconds: int, wifi: int = 100, lte: int = 100) -> None:
        """So many packets a second by each."""
        for _ in range(seconds):
            self.far.brings("wifi", first=wifi)
            self.far.brings("lte", first=max(0, lte - wifi), eliminated=min(wifi, lte))
            self.second()

    def decided(self, terminal: str = "client") -> list[Entry]:
        return [entry for entry in self.core.pilot.logbook.entries(terminal) if entry.copies is not None]


def test_an_uplink_that_brings_all_that_another_does_is_clean_and_copies_end() -> None:
    ends = Copied()
    ends.comes(SECONDS)
    (entry,) = ends.decided()
    assert not entry.copies and "wifi: 0.0% of" in entry.because and "tried" not in entry.because
    assert len(ends.leaves_home()) == 1 and len(ends.leaves_far()) == 1
    assert ends.decided("phone"), "it rides the same uplink"


def test_an_uplink_that_brings_less_keeps_its_copies() -> None:
    ends = Copied()
    ends.comes(SECONDS, wifi=95)
    assert not ends.decided()
    watch = ends.core.copying.watch("client")
    assert watch is not None and "wifi: 5.0% of 100 packets lost" in watch.because
    assert "as is seen where copies come in" in watch.because


def test_an_uplink_that_brings_more_than_another_has_lost_nothing() -> None:
    ends = Copied()
    ends.comes(SECONDS, lte=80)
    assert [entry.copies for entry in ends.decided()] == [False]


@pytest.mark.parametrize("modes", [{"phone": "off"}, {"phone": "single"}])
def test_where_somebody_s_packets_ride_another_uplink_alone_nothing_is_told(modes: dict[str, str]) -> None:
    written = auto(**modes)
    written["sites"]["home"]["terminals"]["phone"]["default_uplink"] = "lte"
    ends = Copied(written)
    ends.comes(SECONDS, wifi=50)
    assert ends.core.copying.watch("client") is None and not ends.decided()
    assert ends.core.wanted.mode(ends.core.config.sites[0].terminals[0]) is Mode.AUTO


def test_where_somebody_s_packets_ride_the_same_uplink_alone_it_is_told_all_the_same() -> None:
    ends = Copied(auto(phone="single"))
    ends.comes(SECONDS, wifi=150)
    assert [entry.copies for entry in ends.decided()] == [False]


def test_what_came_while_it_was_decided_otherwise_is_not_taken_for_lost() -> None:
    ends = Copied()
    ends.comes(2)
    for uplink in ("lte", "wifi"):
        for name in ("client", "phone"):
            ends.carry(ends.core.wish_active(name, uplink, ends.now)[1])
        ends.comes(1, wifi=10 if uplink == "wifi" else 100, lte=10 if uplink == "lte" else 100)
    watch = ends.core.copying.watch("client")
    assert watch is None or "0.0% of" in watch.because


def test_an_end_that_does_not_eliminate_is_not_asked() -> None:
    ends = Copied()
    ends.far.gone = {"lte0": "it has an XDP program already"}
    ends.second()
    ends.comes(SECONDS, wifi=50)
    assert ends.core.copying.watch("client") is None
