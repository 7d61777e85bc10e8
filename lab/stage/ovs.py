# SPDX-License-Identifier: Apache-2.0
"""A private Open vSwitch with its own database, sockets and processes, visible only in the caller's world.

Its programs (ovs-vsctl, ovs-ofctl, ovs-appctl) and Mininet find it by OVS_RUNDIR and its sisters in the
environment. A system's Open vSwitch is never touched: outside a world nothing is started.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.stage import isolate
from lab.stage.command import run
from lab.stage.watch import Needed

DIRECTORY = isolate.RUN_DIRECTORY / "ovs"
PLACES = ("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR")
LAST_WORDS = {"ovs-vswitchd": ("exit", "--cleanup"), "ovsdb-server": ("exit",)}  # in the order in which they stop
PATIENCE_S = 60


class PrivateOvs:
    """`with PrivateOvs():` or start() and stop()."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self.directory = directory
        self._before: dict[str, str | None] = {}

    def start(self) -> Self:
        if not isolate.inside():
            raise isolate.WorldError(f"{self.directory}: Open vSwitch is started inside a world only: isolate.enter()")
        try:
            self.directory.mkdir(parents=True)
        except FileExistsError:
            told = "there is an Open vSwitch in this world already; stop that one first or give another directory"
            raise isolate.WorldError(f"{self.directory}: {told}") from None
        self._before = {place: os.environ.get(place) for place in PLACES}
        os.environ.update(dict.fromkeys(PLACES, str(self.directory)))
        try:
            run("ovsdb-tool", "create", str(self.directory / "conf.db"))
            # --detach returns when the daemon is ready to serve.
            self._daemon("ovsdb-server", f"--remote=punix:{self.directory}/db.sock")
            run("ovs-vsctl", "--no-wait", "init")
            self._daemon("ovs-vswitchd")
        except BaseException:
            self.stop()
            raise
        return self

    def _daemon(self, name: str, *options: str) -> None:
        run(name, *options, "--pidfile", "--no-chdir", "--detach", "--log-file", "-vconsole:off")

    def stop(self) -> None:
        for name in LAST_WORDS:
            pidfile = self.directory / f"{name}.pid"
            if pidfile.exists():
                _end(name, int(pidfile.read_text()))
        for place, value in self._before.items():
            if value is None:
                os.environ.pop(place, None)
            else:
                os.environ[place] = value
        for left in self.directory.iterdir():
            left.unlink()
        self.directory.rmdir()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _end(name: str, pid: int) -> None:
    """Ask the daemon to exit and wait until it has; a world's first process reaps it."""
    try:
        death = os.pidfd_open(pid)
    except ProcessLookupError:
        return  # it crashed and left its pidfile
    try:
        if select.select([death], [], [], 0)[0]:
            return  # it crashed and waits to be reaped
        told = run("ovs-appctl", f"--timeout={PATIENCE_S}", "-t", name, *LAST_WORDS[name], check=False)
        if not select.select([death], [], [], PATIENCE_S if told.returncode == 0 else 0)[0]:
            signal.pidfd_send_signal(death, signal.SIGKILL)
            select.select([death], [], [])
    finally:
        os.close(death)


def needed(directory: Path = DIRECTORY) -> tuple[Needed, ...]:
    """The daemons of the one that is running there."""
    return tuple(
        Needed(name, int((directory / f"{name}.pid").read_text()), (directory / f"{name}.log").read_text)
        for name in LAST_WORDS
    )


def vsctl(*arguments: str) -> str:
    """ovs-vsctl, which waits until ovs-vswitchd has done what it was told."""
    return run("ovs-vsctl", f"--timeout={PATIENCE_S}", *arguments).stdout


def ofctl(*arguments: str, given: str | None = None) -> str:
    """ovs-ofctl in OpenFlow 1.3; `given` is what it reads as the file `-`."""
    return run("ovs-ofctl", "-O", "OpenFlow13", *arguments, given=given).stdout


def await_caches() -> None:
    """Wait until packets go by the tables as they are: no OpenFlow answer tells of what the datapath has cached."""
    run("ovs-appctl", "revalidator/wait")


def running() -> bool:
    """Whether this environment leads to a private Open vSwitch that answers."""
    if os.environ.get("OVS_RUNDIR") is None:
        return False
    return subprocess.run(["ovs-vsctl", "--timeout=5", "show"], capture_output=True).returncode == 0
