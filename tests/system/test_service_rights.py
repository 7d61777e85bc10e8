"""A gateway's agent as a service: what systemd leaves it is enough for elimination and for tunnels."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from experiments.live import agents
from experiments.live.agents import eliminating
from experiments.live.connections import AGENT
from tests.system import as_a_service
from tests.system.conftest import two_sites
from tests.system.pinging import PINGS, pinged
from tests.system.tunnelled import BY_LTE, CLIENT, FULL, tunnelling
from topologies.paper import SERVER


def serve(place: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
    """Agents have the unit's rights from now on, and these."""
    words = shlex.join([sys.executable, as_a_service.__file__, *more, "--", AGENT])
    program = place / "agent"
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(agents, "AGENT", str(program))


def test_copies_are_eliminated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(tmp_path, monkeypatch)
    with two_sites(tmp_path) as twin, eliminating(twin.controller, "home", "far"):
        twin.await_in_force()
        assert [pinged(twin, source) for source in (CLIENT, BY_LTE)] == [(PINGS, 0)] * 2
        said = twin.controller.client.get("status")["agents"]
        cannot = {one["name"]: [each["name"] for each in one["missing"]] for one in said}
        assert cannot == {"home": [], "far": []}, said


def test_tunnels_are_made_and_carry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agents of this topology live in other namespaces than their ports, which alone wants these two more."""
    serve(tmp_path, monkeypatch, "CAP_SYS_ADMIN", "CAP_SYS_PTRACE")
    with tunnelling(tmp_path) as both:
        assert [pinged(both, source) for source in (CLIENT, BY_LTE)] == [(PINGS, 0)] * 2
        words = shlex.split(f"ping -c 2 -W 2 -M do -s {FULL} -I {CLIENT} {SERVER}")
        said = both.net.machine("client").run(*words, check=False).stdout
        assert f"Frag needed and DF set (mtu = {FULL})" in said
