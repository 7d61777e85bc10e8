# SPDX-License-Identifier: Apache-2.0
"""setup/packages.sh runs on a fake Debian: shell scripts replace dpkg-query, apt-cache and apt-get."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.setup.place import TREE, Done, program, run

NOBODY = "65534"


@dataclass(frozen=True, slots=True)
class Debian:
    root: Path

    def has(self, *names: str) -> None:
        (self.root / "installed").write_text("".join(f"{name} installed\n" for name in names))

    def offers(self, *names: str, after_update: bool = False) -> None:
        (self.root / ("archive" if after_update else "known")).write_text("".join(f"{name}\n" for name in names))

    def asked(self) -> list[str]:
        """Return the commands of apt-get, without its options."""
        log = self.root / "log"
        if not log.exists():
            return []
        words = (line.split() for line in log.read_text().splitlines())
        return [" ".join(word for word in line if not word.startswith(("-", "DPkg::"))) for line in words]

    def wish(self, *lines: str, user: str = "0") -> Done:
        (self.root / "list.txt").write_text("\n".join(["# what is wished", *lines, ""]))
        environment = {"PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "DEBIAN": str(self.root)}
        script = shutil.copy(TREE / "setup/packages.sh", self.root)  # other users may not read the tree
        return run(["setpriv", f"--reuid={user}", script, self.root / "list.txt"], environment)


@pytest.fixture
def debian(public_path: Path) -> Debian:
    programs = public_path / "bin"
    (public_path / "archive").touch()
    program(programs, "dpkg-query", 'shift 2; for name; do grep "^$name " "$DEBIAN/installed"; done; exit 1')
    program(programs, "apt-cache", 'shift; for name; do grep -x "$name" "$DEBIAN/known"; done; exit 0')
    program(
        programs,
        "apt-get",
        """
        echo "$@" >>"$DEBIAN/log"
        case $1 in
        update) cp "$DEBIAN/archive" "$DEBIAN/known" ;;
        install)
            shift
            for name; do
                case $name in -* | DPkg*) continue ;; esac
                grep -qx "$name" "$DEBIAN/known" || exit 100
            done ;;
        esac
        """,
    )
    debian = Debian(public_path)
    debian.has()
    debian.offers()
    return debian


def test_apt_installs_only_missing_packages_it_knows(debian: Debian) -> None:
    debian.has("curl", "iproute2")
    assert debian.wish("curl", "iproute2", "vagrant?").returncode == 0
    assert debian.asked() == []
    debian.offers("curl", "ethtool", "tcpdump", "vagrant")
    assert debian.wish("curl", "ethtool", "tcpdump  # to look with", "vagrant?").returncode == 0
    assert debian.asked() == ["install ethtool tcpdump vagrant"]


def test_the_lists_are_updated_when_apt_does_not_know_a_package(debian: Debian) -> None:
    debian.offers("ethtool", after_update=True)
    assert debian.wish("ethtool").returncode == 0
    assert debian.asked() == ["update", "install ethtool"]


def test_an_unknown_package_ends_the_set_up(debian: Debian) -> None:
    assert debian.wish("no-such-thing").returncode != 0


def test_packages_only_prints_the_command_without_root(debian: Debian) -> None:
    debian.offers("ethtool")
    done = debian.wish("ethtool", user=NOBODY)
    assert done.returncode == 77
    assert "sudo apt-get install ethtool" in done.stderr
    assert debian.asked() == []
