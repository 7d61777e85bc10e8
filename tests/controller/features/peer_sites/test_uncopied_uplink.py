# SPDX-License-Identifier: Apache-2.0
"""One of three uplinks may carry no copies. Its missing copies are no sign of loss or silence."""

from __future__ import annotations

from dataclasses import replace

from controller.features.copies.loss_evidence import CopyArrivals
from controller.features.peer_sites.elimination import Silence
from controller.model.config import Config
from controller.model.decisions import Decisions
from controller.model.in_force import InForce
from controller.model.overrides import Overrides
from controller.protocol.reports import Elimination, PathCopies
from tests.controller import sites
from tests.controller.features.peer_sites.test_peer_program import document
from tests.controller.sites import PORTS

SEEN = {**PORTS, "sat0": replace(PORTS["lte0"], number=9)}
LTE_IS_BARRED = InForce(decisions=Decisions(barred={"home": frozenset({"lte"})}))


def three_uplinks(mode: str) -> Config:
    written = document()
    for site, own, other in (("home", 2, 1), ("far", 1, 2)):
        third = {"addresses": [f"192.168.30.{own}/24"], "next_hops": [{"address": f"192.168.30.{other}"}]}
        written["sites"][site]["uplinks"]["sat"] = {"port": "sat0", **third}
    for terminal in written["sites"]["home"]["terminals"].values():
        terminal["mode"] = mode
    return sites.loaded(written)


def elimination(**first: int) -> Elimination:
    paths = (PathCopies(name, True, count, 0, 0, 0, 0, 0, 0, ()) for name, count in first.items())
    return Elimination(200_000, tuple(paths), ())


def silent(in_force: InForce, **still: int) -> set[str]:
    home, far = three_uplinks("bicast").sites
    silence, ports = Silence(), {1: SEEN, 2: SEEN}
    for second in range(5):
        came = {name: still.get(name, 100 * second) for name in ("wifi", "lte", "sat")}
        silence.look(far, home, elimination(**came), True, in_force, ports, float(second))
    return set(silence.at("far"))


def test_barred_uplink_is_not_silent_and_others_are() -> None:
    assert silent(InForce(), lte=0) == {"lte"}
    assert silent(LTE_IS_BARRED, lte=0) == set()
    assert silent(LTE_IS_BARRED, lte=0, sat=0) == {"sat"}


def test_terminal_on_a_barred_uplink_gets_no_loss_evidence() -> None:
    home, far = three_uplinks("auto").sites
    on_both, eliminating = Overrides(active={"client": "wifi", "phone": "lte"}), frozenset({"far"})
    for barred, of_whom in (({}, {"wifi", "lte"}), (LTE_IS_BARRED.decisions.barred, {"wifi"})):
        in_force = InForce(on_both, Decisions(eliminating=eliminating, barred=barred))
        brought = CopyArrivals()
        for second in range(3):
            evidence = brought.on_report(
                far, home, elimination(wifi=100 * second, lte=50 * second, sat=second), 1.0, in_force, float(second)
            )
        assert evidence.keys() == of_whom
