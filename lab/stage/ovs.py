# SPDX-License-Identifier: Apache-2.0
"""A private Open vSwitch with its own database, sockets and processes.

Its programs and Mininet find it by OVS_RUNDIR. Outside a world nothing is started: the system's Open vSwitch is safe.
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
from lab.stage.watch import WatchedProcess

DIRECTORY = isolate.RUN_DIRECTORY / "ovs"
DIRECTORY_VARIABLES = ("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR")
EXIT_COMMANDS = {"ovs-vswitchd": ("exit", "--cleanup"), "ovsdb-server": ("exit",)}  # in stop order
PATIENCE_S = 60


class PrivateOvs:
    """A private Open vSwitch, as a context or by start() and stop()."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self.directory = directory
        self._before: dict[str, str | None] = {}

    def start(self) -> Self:
        if not isolate.inside():
            raise isolate.WorldError(f"{self.directory}: Open vSwitch runs only inside a world: isolate.enter()")
        try:
            self.directory.mkdir(parents=True)
        except FileExistsError:
            problem = "this world already has an Open vSwitch; stop it first or give another directory"
            raise isolate.WorldError(f"{self.directory}: {problem}") from None
        self._before = {place: os.environ.get(place) for place in DIRECTORY_VARIABLES}
        os.environ.update(dict.fromkeys(DIRECTORY_VARIABLES, str(self.directory)))
        try:
            run("ovsdb-tool", "create", str(self.directory / "conf.db"))
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
        for name in EXIT_COMMANDS:
            pidfile = self.directory / f"{name}.pid"
            if pidfile.exists():
                _stop_daemon(name, int(pidfile.read_text()))
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


def _stop_daemon(name: str, pid: int) -> None:
    """The world's init reaps it."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return  # crashed, left its pidfile
    try:
        if select.select([pidfd], [], [], 0)[0]:
            return  # crashed, not reaped yet
        result = run("ovs-appctl", f"--timeout={PATIENCE_S}", "-t", name, *EXIT_COMMANDS[name], check=False)
        if not select.select([pidfd], [], [], PATIENCE_S if result.returncode == 0 else 0)[0]:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            select.select([pidfd], [], [])
    finally:
        os.close(pidfd)


def needed(directory: Path = DIRECTORY) -> tuple[WatchedProcess, ...]:
    return tuple(
        WatchedProcess(name, int((directory / f"{name}.pid").read_text()), (directory / f"{name}.log").read_text)
        for name in EXIT_COMMANDS
    )


def vsctl(*arguments: str) -> str:
    """Run ovs-vsctl, which waits until ovs-vswitchd has applied the change."""
    return run("ovs-vsctl", f"--timeout={PATIENCE_S}", *arguments).stdout


def ofctl(*arguments: str, given: str | None = None) -> str:
    """Run ovs-ofctl with OpenFlow 1.3; it reads `given` as the file `-`."""
    return run("ovs-ofctl", "-O", "OpenFlow13", *arguments, given=given).stdout


def await_caches() -> None:
    """Wait until the datapath's cached flows match the tables; OpenFlow has no event for this."""
    run("ovs-appctl", "revalidator/wait")


def running() -> bool:
    if os.environ.get("OVS_RUNDIR") is None:
        return False
    return subprocess.run(["ovs-vsctl", "--timeout=5", "show"], capture_output=True).returncode == 0
