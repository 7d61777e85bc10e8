# SPDX-License-Identifier: Apache-2.0
"""Run commands in a world: namespaces that end with the calling process.

    outer (this command, waits) ── unshare ── init (process 1 of the world) ── the same command again

The kernel removes a world when init dies, and init dies with the outer process, even after SIGKILL. The control pipe
carries signal numbers inwards; its end means that the outer process is dead.

BPF programs at the world's own cgroup root see no outside socket. The outer process locks and removes that cgroup;
after a kill the next world does.

A terminal signals all three processes. Init blocks these signals: one from the pipe that is also pending has reached
the command; init forwards others.

    python -m lab.stage.isolate COMMAND [ARGUMENT...]      runs one command in a new world
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

MARK = "BICAST_WORLD"  # the world's process namespace; a value from another world does not count
RUN = Path("/run")  # hidden in a world, with the system's Open vSwitch
RUN_DIRECTORY = RUN / "bicast-lab"
CGROUP = "bicast-world-"  # followed by its maker's process
LOCK_FILE = "cgroup.procs"  # in each cgroup; the directory's own lock serializes creation
FIRST_LISTENER = 3  # systemd's LISTEN_FDS convention
CONTROL_ABOVE = 64  # above passed descriptors
BLOCK_SIGINT = ("env", "--block-signal=INT")  # Ctrl-C must wait until Python runs; enter() unblocks it
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_PDEATHSIG = 1
UNSHARE = (
    "unshare", "--net", "--mount", "--pid", "--cgroup", "--propagation=private",
    "--fork", "--kill-child=KILL", "--mount-proc",
)  # fmt: skip


class WorldError(Exception):
    """Report that a world could not be made."""


def inside() -> bool:
    return os.environ.get(MARK) == _process_namespace()


def enter(
    argv: Sequence[str] | None = None,
    listeners: Sequence[socket.socket] = (),
    meanwhile: AbstractContextManager[object] | None = None,
) -> None:
    """Return at once inside a world; outside, run this command or `argv` in one and exit with its code.

    `listeners` become descriptors 3, 4, ... by the LISTEN_FDS convention. `meanwhile` is entered outside.
    """
    if inside():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return
    sys.stdout.flush()
    sys.stderr.flush()
    with meanwhile or nullcontext():
        code = run([*BLOCK_SIGINT, sys.executable, *sys.orig_argv[1:]] if argv is None else argv, listeners)
    os._exit(code)


def run(argv: Sequence[str], listeners: Sequence[socket.socket] = ()) -> int:
    """Return the exit code in a new world, or 128 + its signal."""
    if os.geteuid() != 0:
        raise WorldError(f"{argv[0]}: namespaces need root, this is user {os.geteuid()}; run it with sudo")
    if shutil.which(UNSHARE[0]) is None:
        raise WorldError(f"{argv[0]}: needs the command {UNSHARE[0]}; install the package util-linux")
    reader, writer = os.pipe()
    control = fcntl.fcntl(reader, fcntl.F_DUPFD, CONTROL_ABOVE)
    os.close(reader)
    environment = dict(os.environ)
    if listeners:
        environment["LISTEN_FDS"] = str(len(listeners))
    watched = {*FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    command = [*UNSHARE, sys.executable, "-P", str(Path(__file__).resolve()), "--init", str(control), *argv]
    with _new_cgroup() as cgroup:
        world = subprocess.Popen(
            command,
            env=environment,
            close_fds=False,
            preexec_fn=_child_setup(before | set(FORWARDED), os.getpid(), cgroup, listeners),
        )
        os.close(control)
        try:
            return _relay(world, writer, watched)
        finally:
            os.close(writer)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _mounted_cgroups() -> Path | None:
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return next((Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"), None)


@contextmanager
def _new_cgroup() -> Iterator[Path | None]:
    """Yield None without cgroup v2."""
    mounted = _mounted_cgroups()
    if mounted is None:
        yield None
        return
    caller = next(line[4:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::/"))
    above = mounted / caller
    with ExitStack() as held:
        with _lock_file(above):
            for each in above.glob(f"{CGROUP}*"):
                with suppress(OSError), _lock_file(each / LOCK_FILE, fcntl.LOCK_NB):  # OSError: a world still uses it
                    _remove(each)
            cgroup = above / f"{CGROUP}{os.getpid()}"
            try:
                cgroup.mkdir()
            except OSError as error:
                raise WorldError(f"{cgroup}: cannot be made: {error.strerror}; containers want --privileged") from error
            held.enter_context(_lock_file(cgroup / LOCK_FILE))
        held.callback(_remove, cgroup)
        yield cgroup


@contextmanager
def _lock_file(path: Path, how: int = 0) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | how)
        yield
    finally:
        os.close(descriptor)


def _remove(cgroup: Path) -> None:
    for directory, _, _ in os.walk(cgroup, topdown=False):
        Path(directory).rmdir()


def _child_setup(
    mask: set[signal.Signals | int], parent: int, cgroup: Path | None, listeners: Sequence[socket.socket]
) -> Callable[[], None]:
    def prepare() -> None:
        _die_with_parent()
        if os.getppid() != parent:
            os._exit(1)  # the parent died before prctl() took effect
        if cgroup is not None:
            (cgroup / "cgroup.procs").write_text("0")
        place([each.fileno() for each in listeners])
        for each in FORWARDED:
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return prepare


def place(listeners: Sequence[int]) -> None:
    """Move descriptors to 3, 4, ... in a child before exec (sd_listen_fds(3))."""
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD, CONTROL_ABOVE) for each in listeners]
    for number, high in enumerate(moved, FIRST_LISTENER):
        os.dup2(high, number, inheritable=True)
        os.close(high)


def _relay(world: subprocess.Popen[bytes], writer: int, watched: set[signal.Signals]) -> int:
    while True:
        caught = signal.sigwaitinfo(watched)
        if caught.si_signo == signal.SIGCHLD:
            code = world.poll()
            if code is not None:
                return code if code >= 0 else 128 - code
        else:
            os.write(writer, bytes([caught.si_signo]))


def _init(control: int, argv: Sequence[str]) -> int:
    _run_or_fail("ip", "link", "set", "lo", "up")
    if cgroups := _mounted_cgroups():
        _run_or_fail("umount", "--lazy", str(cgroups))
        _run_or_fail("mount", "-t", "cgroup2", "bicast", str(cgroups))
    _run_or_fail("mount", "-t", "tmpfs", "-o", "mode=0755", "bicast", str(RUN))
    RUN_DIRECTORY.mkdir()
    os.set_inheritable(control, False)
    os.environ[MARK] = _process_namespace()
    wake_reader, wake_writer = os.pipe()
    os.set_blocking(wake_writer, False)
    signal.signal(signal.SIGCHLD, _ignore_signal)
    signal.set_wakeup_fd(wake_writer)
    child = os.fork()
    if child == 0:
        _exec(argv)
    for each in signal.sigpending() & set(FORWARDED):  # arrived before the fork
        os.kill(child, each)
    while True:
        ready, _, _ = select.select([control, wake_reader], [], [])
        if control in ready:
            message = os.read(control, 1)
            if not message:
                return 1  # the outer process is dead; the world ends with init
            if signal.sigtimedwait([message[0]], 0) is None:
                os.kill(child, message[0])
        if wake_reader in ready:
            os.read(wake_reader, 512)
            ended = _reap_children().get(child)
            if ended is not None:
                return ended if ended >= 0 else 128 - ended


def _exec(argv: Sequence[str]) -> NoReturn:
    for each in (*FORWARDED, signal.SIGCHLD):
        signal.signal(each, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    if "LISTEN_FDS" in os.environ:
        os.environ["LISTEN_PID"] = str(os.getpid())
    try:
        os.execvp(argv[0], list(argv))
    except OSError as error:
        print(f"{argv[0]}: cannot be run: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)


def _ignore_signal(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: Python writes to the wake-up pipe only if a handler exists."""


def _reap_children() -> dict[int, int]:
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)


def _process_namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _die_with_parent() -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


def _run_or_fail(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode != 0:
        raise WorldError(f"{' '.join(argv)}: {done.stderr.strip()}")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lab.stage.isolate", description="Run a command in a new world.", allow_abbrev=False
    )
    parser.add_argument("--init", type=int, metavar="FD", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command and its arguments")
    given = parser.parse_args(argv)
    if not given.command:
        parser.error("a command is expected")
    try:
        return run(given.command) if given.init is None else _init(given.init, given.command)
    except WorldError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
