# SPDX-License-Identifier: Apache-2.0
"""`relay` and `why --relay` print the next step, and refuse bad arguments before any request."""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import ip_address

import pytest

from cli import OK, REFUSED, USAGE
from cli.__main__ import main
from controller.model.overrides import PortRange, RelayOverride
from controller.protocol.reports import Role
from tests.cli.conftest import Printed
from tests.controller.edges.http.fake_core import INTERCEPTION, RELAYED, TOKYO, FakeCore
from tests.controller.edges.http.fake_enroller import PHONE, FakeEnroller

Captured = pytest.CaptureFixture[str]


def test_add_prints_the_command_to_run_on_the_relay(
    api: str, fake_core: FakeCore, fake_enroller: FakeEnroller, capsys: Captured
) -> None:
    assert main(["relay", "add", "oslo", "[2001:db8::9]:8443", "--ports", "443,8000-8099", "--congestion", "bbr"]) == OK
    allowed = (PortRange(443, 443), PortRange(8000, 8099))
    assert fake_core.relays == {"oslo": RelayOverride(ip_address("2001:db8::9"), 8443, allowed, "bbr")}
    wished, prefix, line, *_ = capsys.readouterr().out.splitlines()
    assert wished.startswith("oslo is now a relay") and prefix.endswith("; run on oslo:")
    join = "bicast-agent join 192.0.2.1:8656 --name oslo --token secret.pin"
    assert line == f"  {join} && bicast-agent run --role relay"


def test_add_prints_no_token_for_a_connected_relay_agent(
    api: str, fake_core: FakeCore, fake_enroller: FakeEnroller, capsys: Captured
) -> None:
    for role in (Role.TERMINAL, Role.RELAY):
        fake_enroller.known["phone"] = replace(PHONE, role=role, terminal=None)
        assert main(["relay", "add", "phone", "203.0.113.9"]) == OK
        assert fake_core.relays["phone"].port == 443
        assert ("--name phone --token" in capsys.readouterr().out) == (role is Role.TERMINAL)


@pytest.mark.parametrize(
    "typed",
    [
        ["vps.example"],
        ["203.0.113.9:0"],
        ["203.0.113.9:70000"],
        ["[2001:db8::9"],
        ["203.0.113.9", "--ports", "80-"],
        ["203.0.113.9", "--ports", "0"],
    ],
)
def test_add_refuses_a_bad_address_before_any_request(
    api: str, fake_core: FakeCore, typed: list[str], capsys: Captured
) -> None:
    assert main(["relay", "add", "oslo", *typed]) == USAGE
    assert "expected" in capsys.readouterr().err and not fake_core.relays


def test_remove_ends_connections_and_revokes_the_agent(
    api: str, fake_core: FakeCore, fake_enroller: FakeEnroller, printed: Printed
) -> None:
    fake_core.snapshot = replace(RELAYED, relays=(replace(TOKYO, name="phone"),))
    assert "it carries 3 connections, which end now\nphone is revoked\n" in printed("relay", "remove", "phone")
    assert main(["relay", "remove", "phone"]) == REFUSED


def test_drain_and_resume_name_the_open_connections(api: str, fake_core: FakeCore, capsys: Captured) -> None:
    fake_core.snapshot = RELAYED
    assert main(["relay", "drain", "tokyo"]) == OK
    assert fake_core.snapshot.relays[0].draining
    assert main(["relay", "resume", "tokyo"]) == OK
    assert not fake_core.snapshot.relays[0].draining
    assert capsys.readouterr().out == (
        "tokyo accepts no new connections; it carries 3 connections\ntokyo accepts new connections\n"
    )


def test_list_and_status_show_load_and_unreachable_relays(api: str, fake_core: FakeCore, printed: Printed) -> None:
    assert "./bicast relay add" in printed("relay", "list")
    fake_core.snapshot = replace(
        RELAYED, interceptions=(INTERCEPTION, replace(INTERCEPTION, gateway="shed", why_not="nft is not there"))
    )
    listed = printed("relay", "list")
    assert "! relay tokyo: shed does not reach it: no route to host" in listed
    assert "198.51.100.9:443  stands" in listed and "0.08 ms" in listed and "41.0 ms" in listed
    status = printed("status")
    assert "! shed: terminals' TCP is not intercepted as configured: nft is not there" in status
    assert "198.51.100.9:443  stands" in status and "client   home" in status
    assert json.loads(printed("relay", "list", "--json"))[0]["report"]["congestion"] == "bbr"


def test_relay_test_prints_legs_and_fails_if_unreachable(api: str, fake_core: FakeCore, capsys: Captured) -> None:
    fake_core.snapshot = RELAYED
    assert main(["relay", "test", "tokyo", "8.8.8.8"]) == REFUSED
    tried = capsys.readouterr().out
    assert "home to 8.8.8.8: 200 ms, 2 routers, 12 s ago" in tried
    assert "tokyo to 8.8.8.8: not known: nobody answers" in tried
    assert "predicted 251 Mbit/s, 1.99 times the direct path's" in tried
    fake_core.snapshot = replace(RELAYED, relays=(replace(TOKYO, reached=TOKYO.reached[:1]),))
    assert main(["relay", "test", "tokyo"]) == OK


def test_why_shows_the_relay_of_a_destination_and_alternatives(api: str, fake_core: FakeCore, printed: Printed) -> None:
    told = printed("why", "--relay", "8.8.8.8", "--site", "home")
    assert "  predicted: by tokyo: tokyo 251 Mbit/s; direct 126 Mbit/s" in told
    assert "  ping would choose: directly: no relay has both legs shorter" in told
    assert main(["why", "--relay", "8.8.8.8", "--site", "shed"]) == REFUSED
    assert main(["why", "client", "--site", "home"]) == USAGE
