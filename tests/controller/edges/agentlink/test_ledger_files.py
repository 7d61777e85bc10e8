# SPDX-License-Identifier: Apache-2.0
"""The agents' directory is private, and each file in it is whole or reported as damaged."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from api import agent_pb2 as pb
from controller.edges.agentlink.server import Agents
from controller.edges.state import files
from controller.edges.trust import ledger
from controller.edges.trust.authority import Authority
from controller.edges.trust.ledger import LIFETIME_S, RENEWED_AFTER_S, SENT_AGAIN_S, Issued, Ledger
from controller.edges.trust.refusals import AgencyError, Refused
from controller.model.settings import AgentService
from controller.protocol.enrolment import Binding
from controller.protocol.reports import Role
from controller.protocol.requests import Impossible
from tests.controller.edges.agentlink.agent import PATIENCE_S, Identity, StreamStatus
from tests.controller.edges.agentlink.fake_controller import ANYWHERE, FakeController, bind
from tests.controller.edges.openflow.switches import until


def start(directory: Path) -> None:
    Agents(AgentService(ANYWHERE, ANYWHERE, str(directory)), lambda *_: None, bind)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGED = (b"", b"garbage", b"{}", b'{"version": 9, "agents": {}}', b"\xff")
SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    **{
        repr(content): (partial(Path.write_bytes, data=content), ": restore it, or move it away to start over")
        for content in DAMAGED
    },
    "a pipe": (pipe, "cannot be read .*not a regular file.*: it must be a file"),
    "too large": (partial(os.truncate, length=5 << 30), "it has more than 16 MiB"),
}


@pytest.mark.parametrize("name", ["ca.pem", "ledger.json"])
@pytest.mark.parametrize(("spoil", "said"), SPOILT.values(), ids=SPOILT)
def test_damaged_file_is_named_and_not_replaced(
    fake_controller: FakeController, name: str, spoil: Callable[[Path], object], said: str
) -> None:
    identity = fake_controller.enrolled("phone")
    path = fake_controller.directory / name
    good = path.read_bytes()
    spoil(path)
    with pytest.raises(AgencyError, match=f"{name}.*{said}"):
        start(fake_controller.directory)
    path.unlink()
    path.write_bytes(good)
    path.chmod(0o600)
    fake_controller.again()
    fake_controller.served(identity)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("certificates[0].since", 1e20, "found 1e+20, expected a time in Unix seconds"),
        ("certificates[0].age_s", float("nan"), "found nan, expected a time"),
        ("certificates[0].serial", 7, "found 7, expected a text"),
        ("certificates", {}, "found {}, expected a list"),
        ("tokens[0].digest", None, "found nothing, expected a text"),
    ],
)
def test_invalid_ledger_value_is_refused_with_its_place(
    fake_controller: FakeController, place: str, value: object, said: str
) -> None:
    fake_controller.enrolled("phone")
    path = fake_controller.directory / "ledger.json"
    kept = json.loads(path.read_text())
    *steps, last = re.findall(r"\w+", place)
    part = kept["agents"]["phone"]
    for step in steps:
        part = part[int(step) if step.isdecimal() else step]
    part[last] = value
    path.write_text(json.dumps(kept))
    with pytest.raises(AgencyError) as refused:
        start(fake_controller.directory)
    sentence = str(refused.value)
    assert sentence.startswith(f"{path}: agents.phone.{place}: ") and said in sentence and "\n" not in sentence
    assert "restore it, or move it away to start over" in sentence


@pytest.mark.parametrize("name", ["ca.pem", "ledger.json"])
def test_lost_file_is_reported_once_at_the_next_start(
    fake_controller: FakeController, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    if name == "ca.pem":
        fake_controller.agents.invite("laptop")
        (fake_controller.directory / name).unlink()
    fake_controller.again()
    assert not _warnings(caplog), "where nobody has joined, nothing is lost"
    fake_controller.enrolled("phone")
    (fake_controller.directory / name).unlink()
    fake_controller.again()
    (said,) = _warnings(caplog)
    assert name in said
    caplog.clear()
    fake_controller.enrolled("phone")
    fake_controller.again()
    assert not _warnings(caplog)


@pytest.mark.parametrize("now", [-5.0, 0.0, 3600.0, 253402300799.0, 1e12])
def test_impossible_clock_issues_nothing_and_keeps_the_ledger(tmp_path: Path, now: float) -> None:
    path, right = tmp_path / "ledger.json", 2e9
    times = [right, now, now, now]
    ledger_ = ledger.Ledger(path, True, lambda: times.pop(0))
    ledger_.enrol("phone", "secret", Binding(Role.RELAY))
    with pytest.raises(AgencyError, match="set the clock"):
        ledger_.enrol("laptop", "other", Binding(Role.RELAY))
    ledger_.revoke("phone")
    ledger_.save()
    entries = ledger.Ledger(path, False).entries()
    assert set(entries) == {"phone"} and entries["phone"].revoked_at is not None


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == ledger.__name__]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 32 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "none", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


def _fill(disk: Path) -> None:
    with suppress(OSError), (disk / "else").open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass


@pytest.fixture
def on_disk(disk: Path) -> Iterator[FakeController]:
    made = FakeController(disk / "agents")
    yield made
    made.stop()


def test_full_disk_is_reported_and_leaves_no_file_behind(disk: Path, on_disk: FakeController) -> None:
    on_disk.agents.invite("phone")
    _fill(disk)
    with pytest.raises(Impossible, match=r"ledger\.json cannot be written \(No space left .*: free space on ") as full:
        on_disk.agents.invite("laptop")
    assert "user" not in str(full.value), "permissions are not the cause"
    assert not (on_disk.directory / "ledger.json.new").exists()
    assert [each.name for each in on_disk.agents.enrolled()] == ["phone"]
    (disk / "else").unlink()
    on_disk.agents.invite("laptop")


def test_revocation_on_a_full_disk_acts_at_once(disk: Path, on_disk: FakeController) -> None:
    identity = on_disk.enrolled("phone")
    stream, _ = on_disk.served(identity)
    _fill(disk)
    answer = on_disk.agents.revoke("phone")
    assert answer.changed and "No space left" in answer.failed[0]
    assert stream.ended().cause == pb.End.CREDENTIAL
    ledger_file = on_disk.directory / "ledger.json"
    assert json.loads(ledger_file.read_text())["agents"]["phone"]["revoked_at"] is None
    (disk / "else").unlink()
    until(lambda: json.loads(ledger_file.read_text())["agents"]["phone"]["revoked_at"], "it is saved", PATIENCE_S)
    on_disk.again()
    assert on_disk.stream(identity).ended().cause == pb.End.CREDENTIAL


@pytest.mark.parametrize("unwritable", ["full", "read-only"])
def test_controller_with_a_ca_serves_from_an_unwritable_disk(
    disk: Path, on_disk: FakeController, unwritable: str
) -> None:
    identity = on_disk.enrolled("phone")
    if unwritable == "full":
        _fill(disk)
    else:
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    on_disk.again()
    on_disk.served(identity)


def test_lock_on_a_full_disk_is_held_without_its_process_number(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    _fill(disk)
    lock = disk / "agents" / "lock"
    with files.locked(lock, "the agents' directory", "go elsewhere"):
        (said,) = (each.getMessage() for each in caplog.records)
        assert said.startswith(f"{lock} cannot be written (No space left on device)") and "free space on" in said
        sentence = "in use by another controller, process of unknown number: .* go elsewhere"
        with (
            pytest.raises(files.InUse, match=sentence),
            files.locked(lock, "the agents' directory", "go elsewhere"),
        ):
            pass


def test_token_stays_valid_when_the_ledger_cannot_be_saved(fake_controller: FakeController) -> None:
    token = fake_controller.agents.invite("phone").token
    beside = fake_controller.directory / "ledger.json.new"
    beside.mkdir()
    ended = fake_controller.join("phone", token)
    assert isinstance(ended, StreamStatus) and ended.cause == pb.End.PASSING
    beside.rmdir()
    assert isinstance(fake_controller.join("phone", token), Identity)


def test_ca_readable_by_others_is_refused_with_instructions(fake_controller: FakeController) -> None:
    path = fake_controller.directory / "ca.pem"
    path.chmod(0o644)
    with pytest.raises(AgencyError, match=r"every user of this machine can read it: `chmod o= .*ca\.pem`"):
        Authority(fake_controller.directory)
    path.chmod(0o640)
    Authority(fake_controller.directory)


def test_agents_directory_is_private(fake_controller: FakeController) -> None:
    fake_controller.enrolled("phone")
    assert {each.name for each in fake_controller.directory.iterdir()} == {"ca.pem", "ledger.json"}
    assert {stat.S_IMODE(each.stat().st_mode) for each in fake_controller.directory.iterdir()} == {0o600}
    assert stat.S_IMODE(fake_controller.directory.stat().st_mode) == 0o700


def issued(serial: str, key: str = "00" * 32) -> Issued:
    return Issued(serial, 1e9, 0.0, Binding(Role.RELAY), key)


def joined(kept: Ledger, serial: str, key: str = "00" * 32) -> None:
    kept.enrol("phone", serial, Binding(Role.RELAY))
    kept.redeem("phone", serial, lambda _: issued(serial, key))


def serials(kept: Ledger) -> list[str]:
    return [each.serial for entry in kept.entries().values() for each in entry.certificates]


def test_rejoining_agent_keeps_two_valid_certificates(tmp_path: Path) -> None:
    kept = Ledger(tmp_path / "ledger.json", True)
    for number in range(5):
        joined(kept, str(number))
    assert serials(Ledger(tmp_path / "ledger.json", False)) == ["3", "4"]


def test_certificate_ages_while_the_controller_runs_and_is_renewed_after_a_third_of_its_life(tmp_path: Path) -> None:
    """Whatever the clock shows: it may be years wrong."""
    kept = Ledger(tmp_path / "ledger.json", True, lambda: 1e9)
    joined(kept, "1")
    kept.renew("phone", "1", lambda _: issued("too early"))
    kept.passed(RENEWED_AFTER_S)
    kept.save()
    kept = Ledger(tmp_path / "ledger.json", False, lambda: 3e9)
    kept.renew("phone", "1", lambda _: issued("2"))
    kept.renew("phone", "1", lambda _: issued("again at once"))
    assert serials(kept) == ["1", "2"], "the agent may not have received it"
    kept.passed(SENT_AGAIN_S)
    kept.renew("phone", "1", lambda _: issued("3"))
    kept.used("phone", "3")
    assert serials(kept) == ["3"]
    kept.passed(LIFETIME_S - 1)
    assert serials(kept) == ["3"]
    kept.passed(1)
    with pytest.raises(Refused, match="was not used for 90 days"):
        kept.check("phone", "3")
    kept.save()
    assert not Ledger(tmp_path / "ledger.json", False).entries(), "it is forgotten"


def test_renewal_does_not_replace_the_certificate_of_a_host_that_joined_again(tmp_path: Path) -> None:
    kept = Ledger(tmp_path / "ledger.json", True)
    joined(kept, "old")
    kept.passed(RENEWED_AFTER_S)
    joined(kept, "of another key", "11" * 32)
    kept.passed(SENT_AGAIN_S)
    kept.renew("phone", "old", lambda _: issued("renewed"))
    assert serials(kept) == ["old", "of another key"]


def test_ledger_with_dates_is_read(tmp_path: Path) -> None:
    """Before version 4 certificates ended by the clock."""
    path = tmp_path / "ledger.json"
    joined(Ledger(path, True), "1")
    written = json.loads(path.read_text()) | {"version": 3}
    (certificate,) = written["agents"]["phone"]["certificates"]
    del certificate["age_s"]
    certificate |= {"until": 2e9, "sha256": "22" * 32}
    path.write_text(json.dumps(written))
    assert Ledger(path, False).entries()["phone"].certificates == (issued("1"),)
