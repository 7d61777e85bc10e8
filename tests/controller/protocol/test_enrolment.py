# SPDX-License-Identifier: Apache-2.0
"""What an agent is follows from its name, where gateway.yaml or `relay add` knows that; else somebody says it."""

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
def test_a_name_that_is_known_has_its_role_and_any_other_the_one_that_is_said(
    name: str, role: Role | None, terminal: str | None, found: Binding
) -> None:
    assert bound(CONFIG, ["oslo"], name, role, terminal) == found


@pytest.mark.parametrize(
    ("name", "role", "terminal", "reason"),
    [
        ("guest", None, None, "guest is no terminal, site, server or relay that is known here: say what its agent is"),
        (TERMINAL, Role.RELAY, None, f"{TERMINAL} is a terminal of gateway.yaml: its agent has the role terminal"),
        (SITE.name, Role.RELAY, None, f"{SITE.name} is a site of gateway.yaml: its agent has the role gateway"),
        ("www", Role.TERMINAL, None, "www is a server of gateway.yaml: its agent has the role relay"),
        ("guest", None, "nobody", "gateway.yaml has no terminal 'nobody'; it has: "),
        ("guest", Role.RELAY, TERMINAL, "an agent of role relay speaks for no terminal of its own"),
        (TERMINAL, None, "phone", f"{TERMINAL} is a terminal of gateway.yaml, and its agent speaks for that one"),
    ],
)
def test_no_other_role_can_be_had(name: str, role: Role | None, terminal: str | None, reason: str) -> None:
    with pytest.raises(Impossible) as refused:
        bound(CONFIG, ["oslo"], name, role, terminal)
    assert reason in str(refused.value)


def test_where_a_terminal_is_named_like_a_site_somebody_says_which_it_is() -> None:
    config = replace(CONFIG, sites=(replace(SITE, name=TERMINAL),))
    with pytest.raises(Impossible, match=r"is a terminal of gateway\.yaml, and a site of gateway\.yaml: say"):
        bound(config, [], TERMINAL, None, None)
    assert bound(config, [], TERMINAL, Role.GATEWAY, None) == Binding(Role.GATEWAY)
    assert bound(config, [], TERMINAL, Role.TERMINAL, None) == Binding(Role.TERMINAL, TERMINAL)


@pytest.mark.parametrize("role", Role)
def test_what_a_certificate_says_is_read_as_it_was_written(role: Role) -> None:
    one = of_agent("phone", role)
    assert parsed(one.uri) == one


@pytest.mark.parametrize(
    "uri",
    ["", "urn:bicast:agent:", "urn:bicast:agent:root", "urn:bicast:agent:terminal", "urn:bicast:agent:relay:phone"],
)
def test_anything_else_in_a_certificate_is_no_role(uri: str) -> None:
    assert parsed(uri) is None


@pytest.mark.parametrize("servers", [[TERMINAL], [SITE.name], ["www", "www"], ["WWW"], ["all"], "www"])
def test_a_server_has_a_name_of_its_own(servers: object) -> None:
    with pytest.raises(ConfigError, match="servers"):
        sites.loaded({**sites.document(), "servers": servers})
