# SPDX-License-Identifier: Apache-2.0
"""Overrides survive a restart, or the state file is named as unusable."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from controller.edges.runtime import service
from controller.edges.state import files
from controller.edges.state import writer as state_writer
from controller.edges.state.store import Store, StoreError
from controller.features.probing.path_record import PathEstimate
from controller.features.probing.probed_paths import SentProbe
from controller.model.config import Mode
from controller.model.decisions import Decisions, Used
from controller.model.in_force import InForce
from controller.model.overrides import Overrides, PortRange, RelayOverride
from controller.policy.bandwidth.rates import Alpha, MeasuredRate, Method, Rate
from tests.controller import sites

V1 = '{"version": 1, "modes": {"phone": "off"}, "active": {"phone": "lte"}}'
V3 = '{"version": 3, "modes": {}, "active": {}, "decided": {"phone": "lte"}, "once": ["home"]}'
V4 = '{"version": 4, "modes": {}, "active": {}, "decided": {}, "once": [], "copies": {}, "spent": {}, "paths": []}'
OF_COPIES = '{"home/lte": {"day": "2026-11-22", "copied_bytes": 12, "used_up": null, "counted": {}}}'
V5 = V4.replace("4", "5").replace('"spent": {}', f'"spent": {OF_COPIES}, "relays": {{}}')


@pytest.mark.parametrize(
    ("kept", "found"),
    [
        (V1, InForce(Overrides({"phone": Mode.OFF}, {"phone": "lte"}))),
        (V3, InForce(decisions=Decisions(active={"phone": "lte"}, eliminating=frozenset({"home"})))),
        (V4, InForce()),
        (V5, InForce()),
    ],
    ids=["version 1", "version 3", "version 4", "version 5"],
)
def test_state_of_an_older_version_is_loaded(tmp_path: Path, kept: str, found: InForce) -> None:
    (tmp_path / "state.json").write_text(kept)
    assert Store(str(tmp_path / "state.json")).load() == found


USED = {"home/lte": Used("2026-11-22", {"wwan0": 12}, 100, {"wwan0": 40, "0000000000000001": 90})}
TOKYO = RelayOverride(ip_address("198.51.100.7"), 443, draining=True)


def test_stored_overrides_are_loaded(tmp_path: Path) -> None:
    path = tmp_path / "new" / "state.json"
    oslo = RelayOverride(ip_address("2001:db8::7"), 8443, (PortRange(1, 65535),), "bbr", number=63)
    in_force = InForce(
        Overrides({"phone": Mode.SINGLE}, {"phone": "lte"}, relays={"tokyo": TOKYO, "oslo": oslo}),
        Decisions(
            active={"client": "lte"}, copies={"phone": False, "client": True}, used=USED | {"home/sat": Used("2026-11")}
        ),
    )
    Store(str(path)).save(in_force)
    assert Store(str(path)).load() == in_force
    kept = path.read_text()
    for right, wrong in (('"port": 8443', '"port": 84430'), ('"number": 63', '"number": 64')):
        path.write_text(kept.replace(right, wrong))
        with pytest.raises(StoreError, match=r"relays\.oslo\.(port|number).* found (84430|64), expected a "):
            Store(str(path)).load()


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the places of numbers and periods in a JSON document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from leaves(each, (*path, key))
    if (isinstance(value, int | float) and not isinstance(value, bool)) or path[-1:] == ("period",):
        yield path


@pytest.mark.parametrize("number", [10**400, -(10**400), 1 << 63, -1, 1e308, float("inf"), float("nan"), "2026-13-01"])
def test_impossible_number_is_refused_with_its_place(tmp_path: Path, number: object) -> None:
    path = tmp_path / "state.json"
    page = PathEstimate(Alpha(1e-9, 1e-10), (MeasuredRate(Method.TRAINS, Rate(2e6, 1e6, 3e6), 1e9),), SentProbe(1e9, 7))
    Store(str(path)).save(
        InForce(Overrides(relays={"tokyo": TOKYO}), Decisions(used=USED)), {(("home", "lte"), True): page}
    )
    good = path.read_text()
    places = list(leaves(json.loads(good)))
    assert len(places) > 12
    for place in places:
        document = json.loads(good)
        holder = document
        for key in place[:-1]:
            holder = holder[key]
        if number == -1 and place[-1] in ("s_per_byte", "error"):
            continue  # a slope may be any number
        holder[place[-1]] = number
        path.write_text(json.dumps(document))
        with pytest.raises(StoreError, match=r" found .*, expected "):
            Store(str(path)).load()
            Store(str(path)).measured()


def test_pipe_is_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "state.json")
    with pytest.raises(StoreError, match=r"state\.json cannot be read .*not a regular file"):
        Store(str(tmp_path / "state.json")).load()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        '{"version": 3}',
        '{"version": 2, "modes": {}, "active": {}}',
        V5.replace("5", "6", 1)[:-1] + ', "used": {"a/b": {}}}',
        '{"version": 5, "modes": {}, "active": {}, "decided": {}, "once": [], "copies": {}, "spent": {}}',
        '{"version": 1, "modes": {"a": "x"}, "active": {}}',
        '{"version": 1, "modes": {}, "active": {"a": 5}}',
    ],
)
def test_unreadable_state_file_is_named_and_left(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(StoreError, match="move it away to start without"):
        Store(str(path)).load()
    assert path.read_text() == text


def test_unwritable_state_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="a restart would lose"):
        Store(str(tmp_path / "file" / "state.json")).save(InForce())


UP, DOWN = ((("home", "wifi"), down) for down in (False, True))
MEASURED = {
    UP: PathEstimate(
        alpha=Alpha(1.5e-10, 2e-11),
        measured=(MeasuredRate(Method.TRAINS, Rate(98e6, 97e6, 99e6), 1.7e9),),
        spent=SentProbe(1.7e9, 1_400_000),
    ),
    DOWN: PathEstimate(measured=(MeasuredRate(Method.SEVERAL_LINKS, Rate(8e6, 7e6, 9e6), 1.7e9),)),
}


def test_stored_measurements_are_loaded(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "state.json"))
    assert store.measured() == {}
    store.save(InForce(Overrides(active={"phone": "lte"})), MEASURED)
    again = Store(str(tmp_path / "state.json"))
    assert again.measured() == MEASURED and again.load() == InForce(Overrides(active={"phone": "lte"}))


@pytest.mark.parametrize(
    ("good", "bad"),
    [('"bps": 98000000.0', '"bps": 0'), ('"down"', '"left"'), ('"trains"', '"guess"'), ("1.5e-10", "NaN")],
)
def test_impossible_measurement_is_named(tmp_path: Path, good: str, bad: str) -> None:
    path = tmp_path / "state.json"
    Store(str(path)).save(InForce(), MEASURED)
    assert good in path.read_text()
    path.write_text(path.read_text().replace(good, bad))
    with pytest.raises(StoreError, match=r"paths\[.*move it away to start without"):
        Store(str(path)).measured()


PATIENCE_S = 60.0


class FullDisk:
    """`os` with a full disk until there is room."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = True
        self.refused = threading.Semaphore(0)
        self.written = threading.Event()
        self._replace = files.replace
        monkeypatch.setattr(files, "replace", self.replace)

    def replace(self, path: Path, content: bytes) -> None:
        if self.full:
            self.refused.release()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._replace(path, content)
        self.written.set()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


def _begun(store: Store) -> service.Service:
    core = service.Service("gateway.yaml", sites.loaded(sites.document()), store, lambda _effect: None)
    core.start()
    return core


def test_override_on_a_full_disk_is_saved_once_there_is_room(
    tmp_path: Path, disk: FullDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "TICK_S", 0.01)
    caplog.set_level("INFO")
    store = Store(str(tmp_path / "state.json"))
    core = _begun(store)
    try:
        assert any("No space left" in each for each in core.set_mode("client", Mode.OFF).failed)
        for _ in range(5):
            assert disk.refused.acquire(timeout=PATIENCE_S), "saving is retried"
        disk.full = False
        assert disk.written.wait(PATIENCE_S)
        assert store.load().overrides.modes["client"] is Mode.OFF
    finally:
        core.stop()
    assert sum("No space left" in each.getMessage() for each in caplog.records) == 1
    assert [each.levelname for each in caplog.records if each.name == state_writer.__name__] == ["ERROR", "INFO"]


def test_override_on_a_full_disk_is_saved_at_a_clean_stop(
    tmp_path: Path, disk: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "TICK_S", 60.0)
    store = Store(str(tmp_path / "state.json"))
    core = _begun(store)
    assert core.set_mode("client", Mode.OFF).failed
    disk.full = False
    core.stop()
    assert store.load().overrides.modes["client"] is Mode.OFF
