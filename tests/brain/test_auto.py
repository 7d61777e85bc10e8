"""The mode auto: bicast while copies are worth their bytes, single while they are not; and what is made of it."""

from __future__ import annotations

import pytest

from controller.bicast import compile
from controller.known import Known, Wanted
from controller.model import Mode, Site
from controller.policy.ways import Leaves, way
from controller.program import Program
from tests.brain import sites

LTE_IS_BARRED = {"home": frozenset({"lte"})}


def compiled(site: Site, wanted: Wanted) -> Program:
    return compile(site, Known(wanted, sites.known(site).observed))


@pytest.mark.parametrize(("copies", "acting"), [(True, Mode.BICAST), (False, Mode.SINGLE)])
def test_auto_is_bicast_with_copies_and_single_without(copies: bool, acting: Mode) -> None:
    site = sites.paper_site()
    decided = Wanted({"client": Mode.AUTO, "phone": Mode.AUTO}, copies={"client": copies})
    itself = Wanted({"client": acting})
    assert compiled(site, decided) == compiled(site, itself)
    leaves = Leaves.BY_ALL if copies else Leaves.BY_ACTIVE
    assert way(site, site.terminals[0], decided).leaves is leaves
    assert way(site, site.terminals[1], decided).leaves is Leaves.BY_ALL, "nothing is decided of the phone"


@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.BICAST])
def test_where_the_only_other_uplink_may_carry_no_copies_there_are_none(mode: Mode) -> None:
    site = sites.paper_site()
    barred = Wanted({"client": mode}, barred=LTE_IS_BARRED)
    assert barred.acting(site, site.terminals[0]) is Mode.SINGLE
    on_lte = Wanted({"client": mode}, {"client": "lte"}, barred=LTE_IS_BARRED)
    assert on_lte.acting(site, site.terminals[0]) is Mode.BICAST, "the copies are those by Wi-Fi"


def test_a_decision_says_nothing_of_a_terminal_in_another_mode() -> None:
    site = sites.paper_site()
    wanted = Wanted({"client": Mode.BICAST}, copies={"client": False})
    assert wanted.acting(site, site.terminals[0]) is Mode.BICAST
