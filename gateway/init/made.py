# SPDX-License-Identifier: Apache-2.0
"""The changes of `init` to a machine, and the list of what it made, from which `uninstall` works.

A line is in the list before its thing is made. So a killed `init` leaves nothing that the list does not name.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gateway.host import HostError

MARK = "# Made by `bicast init`"
# In the order in which `uninstall` goes through them; each kind in the reverse order of its making.
UNIT, COMMAND, FILE, DIRECTORY = KINDS = ("unit", "command", "file", "directory")


@dataclass(frozen=True, slots=True)
class Change:
    """One required state. Without `act`, the machine has it."""

    name: str
    found: str
    wanted: str
    act: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Places:
    """The files of a machine, below another root in tests."""

    root: Path = Path("/")

    @property
    def configuration(self) -> Path:
        return self.root / "etc/bicast"

    @property
    def gateway(self) -> Path:
        return self.configuration / "gateway.yaml"

    @property
    def tls(self) -> Path:
        return self.configuration / "tls"

    @property
    def defaults(self) -> Path:
        return self.root / "etc/default/bicast"

    @property
    def units(self) -> Path:
        return self.root / "etc/systemd/system"

    @property
    def packaged_units(self) -> tuple[Path, ...]:
        return (self.root / "usr/lib/systemd/system", self.root / "lib/systemd/system")

    @property
    def agent(self) -> Path:
        return self.root / "var/lib/bicast-agent"

    @property
    def states(self) -> tuple[Path, ...]:
        """The directories that the services make, in the end those that systemd keeps for the controller."""
        names = ("lib/bicast-agent", "lib/bicast-lan", "lib/bicast", "lib/private/bicast", "lib/private/bicast-lan")
        return tuple(self.root / "var" / name for name in names)

    @property
    def claims(self) -> Path:
        """The directory that an agent leaves at its end."""
        return self.root / "run/bicast-agent"

    @property
    def list(self) -> Path:
        return self.configuration / "made-by-init"


class Made:
    """The list of what `init` made here."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def __bool__(self) -> bool:
        return self._places.list.exists()

    def entries(self, kind: str) -> Iterator[str]:
        """Yield the latest first."""
        return (value for each, value in reversed(self._lines()) if each == kind)

    def _lines(self) -> list[tuple[str, str]]:
        try:
            lines = self._places.list.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [(kind, value) for kind, _, value in (line.partition(" ") for line in lines) if kind in KINDS]

    def add(self, kind: str, value: str) -> None:
        lines = self._lines()
        if (kind, value) in lines:
            return
        made = [f"directory {each}" for each in _absent(self._places.configuration)] if not lines else []
        self._places.configuration.mkdir(parents=True, exist_ok=True)
        self._write([*made, *(" ".join(each) for each in (*lines, (kind, value)))])

    def forget(self, kind: str, value: str) -> None:
        self._write([" ".join(each) for each in self._lines() if each != (kind, value)])

    def _write(self, lines: list[str]) -> None:
        head = f"{MARK}: `bicast uninstall` removes what is listed here."
        written(self._places.list, "".join(f"{line}\n" for line in (head, *lines)), 0o600)

    def end(self) -> Change:
        """Return the removal of the list itself, and of the directories that are empty without it."""
        return Change(str(self._places.list), "present", "absent", self._end)

    def _end(self) -> None:
        directories = [Path(name) for name in self.entries(DIRECTORY)]
        self._places.list.unlink()
        for path in directories:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()

    def make_directory(self, path: Path, mode: int = 0o755) -> None:
        for each in _absent(path):
            self.add(DIRECTORY, str(each))
            each.mkdir(mode=mode, exist_ok=True)

    def write(self, path: Path, text: str, mode: int = 0o644) -> None:
        self.add(FILE, str(path))
        self.make_directory(path.parent)
        written(path, text, mode)

    def file(self, path: Path, text: str, mode: int = 0o644) -> Change:
        """Return the change that writes a file. A file of somebody else is not overwritten."""
        present = path.read_text(encoding="utf-8", errors="replace") if path.exists() else None
        if present == text and path.stat().st_mode & 0o777 == mode:
            return Change(str(path), "present", "present")
        if present is not None and str(path) not in self.entries(FILE):
            raise HostError(f"{path} exists, and `bicast init` did not make it: move it away, and run this again")
        found = "absent" if present is None else "another text"
        return Change(str(path), found, "written", lambda: self.write(path, text, mode))


def _absent(path: Path) -> list[Path]:
    """Return the directories that a path lacks, the outermost first."""
    return [each for each in reversed((path, *path.parents)) if not each.exists()]


def written(path: Path, text: str, mode: int) -> None:
    """Replace a file in one step: a reader finds the old text or the new one."""
    beside = path.with_name(f".{path.name}.init")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, mode)
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    beside.replace(path)


def command_line(words: tuple[str, ...]) -> str:
    return json.dumps(words)


def removals(places: Places, made: Made) -> Iterator[Change]:
    """Yield the removal of files and directories. The list stays, so that a killed removal can go on."""
    for name in made.entries(FILE):
        path = Path(name)
        yield Change(name, *_there(path.exists()), path.unlink if path.exists() else None)
    for path in (*places.states, places.claims) if made else ():
        there = path.exists() or path.is_symlink()
        yield Change(str(path), *_there(there), partial(_remove, path) if there else None)
    for path in map(Path, made.entries(DIRECTORY)):
        empty = path.is_dir() and not any(path.iterdir())
        yield Change(str(path), *_there(empty), path.rmdir if empty else None)


def _there(present: bool) -> tuple[str, str]:
    return ("present" if present else "absent", "absent")


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path)
