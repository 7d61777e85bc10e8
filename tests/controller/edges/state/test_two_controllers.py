# SPDX-License-Identifier: Apache-2.0
"""Two controllers would undo each other's changes. A second one with the same files does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller import __main__ as main
from controller.edges.state.files import InUse
from controller.model.settings import AgentService, Endpoint, Settings

NOWHERE = Endpoint("127.0.0.1", 0)


def settings(state: Path, agents: Path) -> Settings:
    return Settings(
        openflow=NOWHERE,
        tls=None,
        api=NOWHERE,
        token_file=None,
        state_file=str(state),
        agents=AgentService(NOWHERE, NOWHERE, str(agents)),
    )


@pytest.mark.parametrize(("other", "named"), [("state", "controller.agents.directory"), ("agents", "controller.state")])
def test_state_and_agents_directory_are_not_shared(tmp_path: Path, other: str, named: str) -> None:
    """The second controller shares only one of the two."""
    first = list(main._locks(settings(tmp_path / "state.json", tmp_path / "agents")))
    of_second = {"state": tmp_path / "state.json", "agents": tmp_path / "agents", other: tmp_path / "other"}
    with first[0], first[1], pytest.raises(InUse, match=named):
        for lock in main._locks(settings(of_second["state"], of_second["agents"])):
            lock.__enter__()
