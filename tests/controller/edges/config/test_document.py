# SPDX-License-Identifier: Apache-2.0
"""The configuration file is read whole or refused, and reading it always ends."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from controller.edges.config import load
from controller.edges.config.settings import DEFAULT_AGENTS
from controller.model.config import ConfigError
from lab.stage.addresses import CONTROLLER
from lab.stage.isolate import RUN_DIRECTORY

OLD_S = 1_000_000_000
HALF = b"sites:\n"
WHOLE = HALF + b"  home: {}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gateway.yaml"


def test_oversized_file_is_not_read(file: Path) -> None:
    file.write_bytes(b"#" * (2 << 20))
    with pytest.raises(ConfigError, match="at most 524288 bytes"):
        load.load(str(file))


def _error_of(path: Path) -> str:
    said: list[str] = []

    def read() -> None:
        try:
            load.load(str(path))
        except ConfigError as error:
            said.append(str(error))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(60)
    assert not reader.is_alive(), "it waits"
    return said[0]


@pytest.mark.parametrize(
    ("path", "expected"),
    [("pipe", "a regular file"), ("/dev/zero", "a regular file"), ("/", "a file that can be")],
)
def test_path_without_a_regular_file_is_refused_without_blocking(tmp_path: Path, path: str, expected: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    said = _error_of(tmp_path / path)
    assert f"{path}: top level: found" in said and f"expected {expected}" in said


def test_half_written_file_is_read_once_complete(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_bytes(HALF)
    rest = [b"{}\n", b"  home: "]  # one after the other

    def meanwhile(_s: float) -> None:
        if rest:
            file.write_bytes(file.read_bytes() + rest.pop())

    monkeypatch.setattr(load.time, "sleep", meanwhile)
    assert load.read(str(file)) == WHOLE


def test_file_that_keeps_growing_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_bytes(WHOLE)

    def more(_s: float) -> None:
        file.write_bytes(file.read_bytes() + b"#\n")

    monkeypatch.setattr(load.time, "sleep", more)
    monkeypatch.setattr(load, "PATIENCE_S", 0.01)
    with pytest.raises(ConfigError, match="write a new one and rename it"):
        load.read(str(file))


@pytest.mark.parametrize("age_s", [OLD_S, -OLD_S])
def test_only_a_new_file_is_waited_for(file: Path, monkeypatch: pytest.MonkeyPatch, age_s: float) -> None:
    file.write_bytes(WHOLE)
    at = file.stat().st_mtime - age_s
    os.utime(file, (at, at))
    waits: list[float] = []
    monkeypatch.setattr(load.time, "sleep", waits.append)
    assert load.read(str(file)) == WHOLE
    assert len(waits) == (age_s < 0)


@pytest.mark.parametrize("name", ["twin", "natted", "beyond"])
def test_lab_sites_use_other_agent_addresses_than_installed(name: str) -> None:
    """The README's commands run on them unchanged."""
    settings = load.load(str(Path(__file__).resolve().parents[4] / "topologies" / f"{name}.yaml")).settings
    assert settings.agents is not None
    assert {RUN_DIRECTORY} == {Path(each).parent for each in (settings.state_file, settings.agents.directory)}
    reached = CONTROLLER if name == "natted" else DEFAULT_AGENTS.join.host
    assert {settings.agents.listen.host, settings.agents.join.host} == {reached}
