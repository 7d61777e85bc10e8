# SPDX-License-Identifier: Apache-2.0
"""Files are replaced atomically: after any interruption, the old or the new file is there."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller import __main__ as main
from controller.edges.state import files
from controller.edges.state.files import InUse
from controller.model.settings import AgentService, Endpoint, Settings
from tests.setup.place import TREE

OLD, NEW = b'{"old": true}\n', b'{"new": "' + b"x" * 20_000 + b'"}\n'


class CrashingDisk:
    """`os` for files.py, with the possible contents after a power cut at any moment.

    Names are on the disk from when their directory was synced, or earlier; bytes likewise, from the file's
    beginning.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.synced: dict[int, bytes] = {}  # by inode
        self.names = [self._named()]  # since the directory was synced, in order
        self.cuts: list[set[bytes]] = []  # possible contents under the name after each step
        for path in directory.iterdir():
            self.synced[path.stat().st_ino] = path.read_bytes()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)
        status = os.fstat(descriptor)
        if os.path.samestat(status, self.directory.stat()):
            self.names = [self._named()]
        elif stat.S_ISREG(status.st_mode):
            self.synced[status.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()
        self._cut()

    def replace(self, *paths: Path) -> None:
        os.replace(*paths)  # noqa: PTH105 (it stands for os)
        self._cut()

    def open(self, *words: Any) -> int:
        descriptor = os.open(*words)
        self._cut()
        return descriptor

    def _named(self) -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in self.directory.iterdir()}

    def _cut(self) -> None:
        if (named := self._named()) != self.names[-1]:
            self.names.append(named)
        inodes = {each.get("state.json", 0) for each in self.names}
        self.cuts.append({found for inode in inodes for found in self._found(inode)})

    def _found(self, inode: int) -> Iterator[bytes]:
        whole = self.synced.get(inode)
        if whole is None:  # no byte of it is certain to be there
            yield from (b"", NEW[:1], NEW[: len(NEW) // 2])
        else:
            yield whole


def test_power_cut_at_any_step_leaves_the_old_or_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state.json").write_bytes(OLD)
    disk = CrashingDisk(tmp_path)
    monkeypatch.setattr(files, "os", disk)
    files.replace(tmp_path / "state.json", NEW)
    assert len(disk.cuts) >= 4
    assert all(cut <= {OLD, NEW} for cut in disk.cuts)
    assert disk.cuts[-1] == {NEW}, "once it is replaced, it stays"


def test_new_directory_survives_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = CrashingDisk(tmp_path)
    monkeypatch.setattr(files, "os", disk)
    files.replace(tmp_path / "new" / "state.json", NEW)
    assert disk.names == [disk._named()] and "new" in disk.names[0]


WRITES = """
import itertools, sys
from pathlib import Path
from controller.edges.state import files
for each in itertools.count():
    files.replace(Path(sys.argv[1]), str(each % 10).encode() * 300_000)
    if each == 1:
        print("begun", flush=True)
"""


def test_killed_writer_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", WRITES, path], cwd=TREE, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"begun\n"
            writer.send_signal(signal.SIGKILL)
        found = files.read(path)
        assert len(found) == 300_000 and len(set(found)) == 1


WHAT = ("the state file state.json", "go elsewhere")


def test_lock_excludes_a_second_holder_and_names_the_first(tmp_path: Path) -> None:
    lock = tmp_path / "state.json.lock"
    with files.locked(lock, *WHAT):
        sentence = rf"state file state\.json is in use by another controller, process {os.getpid()}: .* go elsewhere"
        with pytest.raises(files.InUse, match=sentence), files.locked(lock, *WHAT):
            pass
    with files.locked(lock, *WHAT):
        assert lock.stat().st_mode & 0o7777 == 0o600


def test_unwritable_lock_does_not_prevent_a_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    with files.locked(tmp_path / "file" / "lock", *WHAT):
        assert "would not be noticed" in caplog.text


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
