# SPDX-License-Identifier: Apache-2.0
"""`enroll`, `revoke` and `agents` print the next step for the person who typed them."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from ipaddress import ip_interface
from pathlib import Path

import pytest

from cli import REFUSED
from cli.__main__ import main
from controller.edges.http.app import make_app
from controller.edges.http.server import serve
from controller.protocol.enrolment import EnrolmentState
from controller.protocol.reports import Role
from gateway import links
from tests.cli.conftest import Printed
from tests.controller.edges.http.fake_core import SETTINGS, TOKEN, FakeCore
from tests.controller.edges.http.fake_enroller import FakeEnroller

Captured = pytest.CaptureFixture[str]


ELSEWHERE = (
    "the identity is stored in /var/lib/bicast-agent; for another directory, add --directory DIRECTORY "
    "to this command and to `run`"
)


def test_enroll_prints_the_line_to_type_on_the_agents_host(
    api: str, fake_enroller: FakeEnroller, printed: Printed
) -> None:
    first, line, last, secret = printed("enroll", "tablet").splitlines()
    assert first.startswith("single-use, valid until ") and first.endswith("; run on tablet:")
    assert line == "  bicast-agent join 192.0.2.1:8656 --name tablet --token secret.pin"
    assert last == ELSEWHERE and "--token -" in secret


def test_the_agent_keeps_its_identity_where_enroll_says() -> None:
    go = (Path(__file__).parents[2] / "agent" / "trust" / "identity.go").read_text()
    assert ELSEWHERE.split(";")[0].removeprefix("the identity is stored in ") in re.findall(
        r'DefaultDirectory = "(.*)"', go
    )


@pytest.mark.parametrize("join", ["127.7.7.7:1", "[::1]:8656"])
def test_enroll_warns_when_the_join_address_is_loopback(
    api: str, fake_enroller: FakeEnroller, join: str, printed: Printed
) -> None:
    fake_enroller.join = join
    assert f"! {join} can be reached only from the controller's own machine: " in printed("enroll", "tablet")


def test_enroll_prints_a_line_for_each_address_of_a_wildcard(
    api: str, fake_enroller: FakeEnroller, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = ("192.168.1.1/24", "10.9.0.1/16", "2001:db8::1/64", "127.0.0.1/8")
    up = replace(links.read()[0], up=True, addresses=tuple(map(ip_interface, addresses)))
    down = replace(up, up=False, addresses=(ip_interface("172.16.0.1/12"),))
    monkeypatch.setattr(links, "read", lambda: (up, down))
    fake_enroller.join = "0.0.0.0:8656"
    assert re.findall(r"bicast-agent join (\S+) ", printed("enroll", "tablet")) == ["192.168.1.1:8656", "10.9.0.1:8656"]


def test_revoke_prints_the_result(api: str, fake_enroller: FakeEnroller, printed: Printed) -> None:
    assert printed("revoke", "phone") == "phone is revoked\n"
    assert printed("revoke", "phone") == "phone is already revoked\n"


def test_agents_lists_enrolled_agents(api: str, fake_enroller: FakeEnroller, printed: Printed) -> None:
    lines = printed("agents").splitlines()
    assert re.split(" {2,}", lines[0]) == [
        *("AGENT", "ROLE", "STANDING", "CONNECTED FROM", "CERTIFICATE UNTIL", "TOKEN UNTIL"),
        *("REVOKED", "LAST TRIED", "FROM"),
    ]
    laptop, phone = (re.split(" {2,}", line) for line in lines[1:])
    assert laptop[:6] == ["laptop", "-", "revoked", "-", "-", "-"] and laptop[8] == "192.0.2.8:50000"
    assert laptop[6].startswith("2023-11-1") and laptop[6] < laptop[7]
    assert phone[:4] == ["phone", "terminal", "connected", "192.0.2.7:50000"] and phone[6:] == ["-", "-", "-"]
    assert [one["name"] for one in json.loads(printed("agents", "--json"))] == ["laptop", "phone"]


def test_commands_name_the_missing_setting_when_agents_are_off(
    fake_core: FakeCore, monkeypatch: pytest.MonkeyPatch, capsys: Captured, printed: Printed
) -> None:
    running = serve(make_app(fake_core.read, fake_core.program, fake_core.decisions, fake_core, TOKEN), SETTINGS)
    monkeypatch.setenv("BICAST_API", str(running.endpoint))
    monkeypatch.setenv("BICAST_TOKEN", TOKEN)
    try:
        for words in (["agents"], ["agents", "--json"], ["enroll", "phone"]):
            assert main(words) == REFUSED
            out, err = capsys.readouterr()
            assert out == "" and "write `agents: {}` under `controller:` in gateway.yaml" in err
        assert "agents: " not in printed("status")
    finally:
        running.stop()


def test_status_names_a_revoked_agent_that_still_tries(api: str, fake_enroller: FakeEnroller, printed: Printed) -> None:
    def warnings() -> list[str]:
        return [line for line in printed("status").splitlines() if "still tries" in line]

    assert warnings() == [], "its last try was long ago"
    fake_enroller.known["laptop"] = replace(fake_enroller.known["laptop"], tried_at=time.time() - 90)
    assert warnings()[0].startswith(
        "! agent laptop: it was revoked and still tries to connect, 1 min ago from 192.0.2.8"
    )
    fake_enroller.known["laptop"] = replace(fake_enroller.known["laptop"], role=Role.TERMINAL, terminal="Lap.Top")
    assert "`./bicast enroll laptop --role terminal --terminal Lap.Top` and" in warnings()[0]
    fake_enroller.known["laptop"] = replace(fake_enroller.known["laptop"], standing=EnrolmentState.AWAY)
    assert warnings() == [], "it has joined again"
