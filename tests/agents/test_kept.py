"""What the controller keeps of its agents is its own, and is whole or said not to be."""

from __future__ import annotations

import stat

import grpc
import pytest

from controller.agency.authority import Authority
from controller.agency.refusals import AgencyError
from controller.agents import Agents
from controller.model import AgentService
from controller.wishes import Impossible
from tests.agents.agent import Ended, Identity
from tests.agents.house import ANYWHERE, House

UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
DENIED = grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("name", ["ca.pem", "ledger.json"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"{}", b'{"version": 9, "agents": {}}', b"\xff"])
def test_what_is_damaged_is_named_and_not_begun_anew(house: House, name: str, content: bytes) -> None:
    identity = house.enrolled("phone")
    path = house.directory / name
    good = path.read_bytes()
    path.write_bytes(content)
    with pytest.raises(AgencyError, match=f"{name} does not hold"):
        Agents(AgentService(ANYWHERE, ANYWHERE, str(house.directory)), lambda *_: None)
    path.write_bytes(good)
    house.again()
    house.served(identity)


def test_a_token_that_cannot_be_kept_is_none(house: House) -> None:
    (house.directory / "ledger.json.new").mkdir()
    with pytest.raises(Impossible, match="cannot be written"):
        house.agents.invite("phone")
    assert house.agents.enrolled() == ()


def test_a_joining_that_cannot_be_kept_leaves_the_token_good(house: House) -> None:
    token = house.agents.invite("phone").token
    beside = house.directory / "ledger.json.new"
    beside.mkdir()
    ended = house.join("phone", token)
    assert isinstance(ended, Ended) and ended.code is grpc.StatusCode.UNAVAILABLE
    beside.rmdir()
    assert isinstance(house.join("phone", token), Identity)


def test_the_authority_stays_who_it_is(house: House) -> None:
    assert Authority(house.directory).pin == Authority(house.directory).pin


def test_what_is_kept_is_only_the_controllers(house: House) -> None:
    house.enrolled("phone")
    assert {each.name for each in house.directory.iterdir()} == {"ca.pem", "controller.pem", "ledger.json"}
    assert {stat.S_IMODE(each.stat().st_mode) for each in house.directory.iterdir()} == {0o600}
    assert stat.S_IMODE(house.directory.stat().st_mode) == 0o700
