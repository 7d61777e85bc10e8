# SPDX-License-Identifier: Apache-2.0
"""Evidence of mode auto from arrivals: packets that the active uplink did not deliver and another one did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.core import overrides
from controller.features.steering.logbook import LogEntry
from controller.policy.copies.adaptive import CLEAN_S
from controller.protocol.reports import PathHealth, Role
from tests.controller.features.peer_sites.test_manager import PeerSitePair
from tests.controller.features.peer_sites.test_peer_program import document
from tests.fakes.eliminator import FakeEliminator
from tests.fakes.host import FakeHost

SECONDS = 2 * int(CLEAN_S)

AGENTS = {"client": "192.168.110.3", "phone": "10.1.0.7"}


def auto(**modes: str) -> dict[str, Any]:
    written = document()
    for name, terminal in written["sites"]["home"]["terminals"].items():
        terminal["mode"] = modes.get(name, "auto")
    written["sites"]["home"]["terminals"]["phone"]["default_uplink"] = "wifi"
    return written


class CopiedSites(PeerSitePair):
    """Both ends eliminate copies, and the agent of far reports arrivals."""

    def __init__(self, written: dict[str, Any] | None = None, agents: bool = True) -> None:
        super().__init__(written or auto())
        self.near: FakeEliminator = self.agent("home")
        self.far: FakeEliminator = self.agent("far")
        for name, address in AGENTS.items() if agents else ():
            self.join(FakeHost(name, Role.TERMINAL, (address,), []))
        self.second()

    def comes(self, seconds: int, wifi: int = 100, lte: int = 100) -> None:
        """Let this many packets a second arrive over each uplink."""
        for _ in range(seconds):
            self.far.brings("wifi", first=wifi)
            self.far.brings("lte", first=max(0, lte - wifi), eliminated=min(wifi, lte))
            self.second()

    def reason(self) -> str:
        """Return the reason shown for the client's active uplink."""
        watch = self.core.copying.watch("client")
        assert watch is not None
        return watch.reason

    def decided(self, terminal: str = "client") -> list[LogEntry]:
        return [entry for entry in self.core.steering.logbook.entries(terminal) if entry.copies is not None]


def test_copies_end_only_when_the_active_uplink_delivers_everything() -> None:
    ends = CopiedSites()
    ends.comes(SECONDS, wifi=95)
    assert not ends.decided()
    assert "wifi: 5.0% of 100 packets lost" in ends.reason() and "as counted where copies arrive" in ends.reason()
    ends = CopiedSites()
    ends.comes(SECONDS)
    (entry,) = ends.decided()
    assert not entry.copies and "wifi: 0.0% of" in entry.reason and "tried" not in entry.reason
    assert len(ends.leaves_home()) == 1 and len(ends.leaves_far()) == 1
    assert ends.decided("phone"), "the phone is on the same uplink"


@pytest.mark.parametrize("modes", [{"phone": "off"}, {"phone": "single"}, {}], ids=["off", "single", "not eliminated"])
def test_arrivals_are_ignored_if_a_terminal_is_not_copied_or_eliminated(modes: dict[str, str]) -> None:
    written = auto(**modes)
    written["sites"]["home"]["terminals"]["phone"]["default_uplink"] = "lte" if modes else "wifi"
    ends = CopiedSites(written)
    if not modes:
        ends.far.gone = {"lte0": "it has an XDP program already"}
        ends.second()
    ends.comes(SECONDS, wifi=50)
    assert ends.reason() == "no measurement yet" and not ends.decided()


def test_arrivals_from_before_a_change_do_not_count_as_lost() -> None:
    ends = CopiedSites()
    ends.comes(2)
    for uplink in ("lte", "wifi"):
        for name in ("client", "phone"):
            ends.carry(overrides.active(ends.core, name, uplink, ends.now)[1])
        ends.comes(1, wifi=10 if uplink == "wifi" else 100, lte=10 if uplink == "lte" else 100)
    assert "wifi: 0.0% of" in ends.reason() or "no measurement of wifi yet" in ends.reason()


def test_copies_stay_if_one_path_alone_has_no_evidence() -> None:
    ends = CopiedSites(agents=False)
    ends.comes(3 * SECONDS)
    assert not ends.decided() and ends.reason().count("but no measurement would exist for this path alone") == 1
    probed(ends, 2)
    ends.comes(2)
    assert [entry.copies for entry in ends.decided()] == [False]


# Small packets


def probed(ends: CopiedSites, seconds: int, lost: int = 0, late: int = 0) -> None:
    """Send ten probes a second over Wi-Fi, with no other traffic."""
    path = PathHealth("wifi", "", 0, 0, 0, 0, 0, ())
    for _ in range(seconds):
        path = replace(path, sent=path.sent + 10, lost=path.lost + lost, late=path.late + late)
        ends.pass_time(1.0)
        ends.tell(replace(ends.near.report(), health=(path,)))
        ends.drain()


@pytest.mark.parametrize(("lost", "late"), [(3, 0), (0, 4)])
def test_probes_show_a_lossy_or_late_uplink_without_traffic(lost: int, late: int) -> None:
    ends = CopiedSites(agents=False)
    probed(ends, 35)
    (ended,) = ends.decided()
    assert not ended.copies and "wifi: 0.0% of 3" in ended.reason and "tried" not in ended.reason
    probed(ends, 3, lost, late)
    for name in ("client", "phone"):
        begun, _ = ends.decided(name)
        assert begun.copies and "as probes show" in begun.reason
