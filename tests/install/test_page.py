# SPDX-License-Identifier: Apache-2.0
"""docs/how-to/install.md has the lines that the journey types, and no others."""

from __future__ import annotations

from tests.install.page import FAR, HOME, INVITATION, Typed, typed

MOST_LINES = 6
INSTALL = "apt-get install ./bicast_*_amd64.deb ./bicast-agent_*_amd64.deb"


def test_shortest_way_is_what_the_journey_types() -> None:
    assert typed("Shortest way") == (
        Typed(HOME, INSTALL),
        Typed(FAR, INSTALL),
        Typed(FAR, "bicast init --far"),
        Typed(HOME, f"bicast init {INVITATION}"),
        Typed(FAR, "bicast mode all bicast"),
    )
    assert len(typed("Shortest way")) <= MOST_LINES
    assert typed("Remove it") == (Typed(HOME, "bicast uninstall"), Typed(FAR, "bicast uninstall"))
