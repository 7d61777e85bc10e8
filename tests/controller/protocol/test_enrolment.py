# SPDX-License-Identifier: Apache-2.0
"""gateway.yaml and `relay add` decide the role of an agent with a known name. For other names, the operator does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.model.config import ConfigError
from controller.protocol.enrolment import Binding, bound, of_agent, parsed
from controller.protocol.reports import Role
from controller.protocol.requests import Impossible
from tests.controller import sites

CONFIG = replace(sites.loaded(sites.document()), servers=("www",))
SITE = CONFIG.sites[0]
TERMINAL = SITE.terminals[0].name


@pytest.mark.parametrize(
    ("name", "role", "terminal", "found"),
    [
        (TERMINAL, None, None, Binding(Role.TERMINAL, TERMINAL)),
        (TERMINAL, Role.TERMINAL, TERMINAL, Binding(Role.TERMINAL, TERMINAL)),
        (SITE.name, None, None, Binding(Role.GATEWAY)),
        ("www", None, None, Binding(Role.RELAY)),
        ("oslo", None, None, Binding(Role.RELAY)),
        ("guest", Role.TERMINAL, None, Binding(Role.TERMINAL, "guest")),
        ("guest", None, TERMINAL, Binding(Role.TERMINAL, TERMINAL)),
        ("guest", Role.GATEWAY, None, Binding(Role.GATEWAY)),
    ],
)
def test_known_name_has_its_role_and_others_the_given_one(
    name: str, role: Role | None, terminal: str | None, found: Binding
) -> None:
    assert bound(CONFIG, ["oslo"], name, role, terminal) == found


@pytest.mark.parametrize(
    ("name", "role", "terminal", "reason"),
    [
        ("guest", None, None, "guest is not a known terminal, site, server or relay: give its agent's role"),
        (TERMINAL, Role.RELAY, None, f"{TERMINAL} is a terminal of gateway.yaml: its agent has the role terminal"),
        (SITE.name, Role.RELAY, None, f"{SITE.name} is a site of gateway.yaml: its agent has the role gateway"),
        ("www", Role.TERMINAL, None, "www is a server of gateway.yaml: its agent has the role relay"),
        ("guest", None, "nobody", "gateway.yaml has no terminal 'nobody'; it has: "),
        ("guest", Role.RELAY, TERMINAL, "an agent of role relay does not speak for a terminal"),
        (TERMINAL, None, "phone", f"{TERMINAL} is a terminal of gateway.yaml, and its agent speaks for it"),
    ],
)
def test_other_role_for_a_known_name_is_refused(
    name: str, role: Role | None, terminal: str | None, reason: str
) -> None:
    with pytest.raises(Impossible) as refused:
        bound(CONFIG, ["oslo"], name, role, terminal)
    assert reason in str(refused.value)


def test_name_of_a_terminal_and_a_site_needs_a_role() -> None:
    config = replace(CONFIG, sites=(replace(SITE, name=TERMINAL),))
    with pytest.raises(Impossible, match=r"is a terminal of gateway\.yaml, and a site of gateway\.yaml: give"):
        bound(config, [], TERMINAL, None, None)
    assert bound(config, [], TERMINAL, Role.GATEWAY, None) == Binding(Role.GATEWAY)
    assert bound(config, [], TERMINAL, Role.TERMINAL, None) == Binding(Role.TERMINAL, TERMINAL)


@pytest.mark.parametrize("servers", [[TERMINAL], [SITE.name], ["www", "www"], ["WWW"], ["all"], "www"])
def test_server_needs_a_unique_name(servers: object) -> None:
    with pytest.raises(ConfigError, match="servers"):
        sites.loaded({**sites.document(), "servers": servers})


def test_only_a_written_binding_in_a_certificate_is_read() -> None:
    for one in (of_agent("phone", role) for role in Role):
        assert parsed(one.uri) == one
    for other in ("", "root", "terminal", "relay:phone"):
        assert parsed(other) is None and parsed(f"urn:bicast:agent:{other}") is None
