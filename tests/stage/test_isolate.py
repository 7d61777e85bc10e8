# SPDX-License-Identifier: Apache-2.0
"""A world ends with the process that started it, in whatever way that process ends."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.stage import isolate
from tests.system.evidence import until

WORLD = [sys.executable, "-m", "lab.stage.isolate"]
LAB = str(Path(__file__).with_name("lab_to_kill.py"))
SOON_S = 60
CGROUPS = next(line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines() if " cgroup2 " in line)


def in_world(environment: dict[str, str], *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WORLD, *argv], env=environment, capture_output=True, text=True, timeout=SOON_S)


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 7", 7), ("kill -9 $$", 137), ("true", 0), ("sleep 1000 & exit 3", 3)],
)
def test_a_world_returns_the_exit_code_of_its_command(outside: dict[str, str], command: str, code: int) -> None:
    assert in_world(outside, "sh", "-c", command).returncode == code


def test_a_command_that_does_not_exist_is_named(outside: dict[str, str]) -> None:
    done = in_world(outside, "no-such-command")
    assert done.returncode == 127
    assert "no-such-command: cannot be run: No such file or directory" in done.stderr


def test_a_world_has_its_own_network_processes_and_run(outside: dict[str, str]) -> None:
    assert in_world(outside, "ls", "/run").stdout == "bicast-lab\n"
    links = in_world(outside, "ip", "-brief", "link").stdout.splitlines()
    assert [link.split()[0] for link in links] == ["lo"]
    assert "LOWER_UP" in links[0]
    processes = in_world(outside, "ps", "-e", "-ww", "--no-headers", "--format", "args").stdout.splitlines()
    assert ["--init" in process for process in processes] == [True, False]  # the first process of the world, and ps


def test_a_world_has_its_own_cgroup_root(outside: dict[str, str]) -> None:
    done = in_world(outside, "sh", "-c", f"mkdir {CGROUPS}/of-the-world && cat /proc/self/cgroup")
    assert done.stdout.splitlines()[-1] == "0::/", done.stderr
    assert not list(Path(CGROUPS).glob("**/of-the-world"))


def test_enter_runs_the_same_command_once(outside: dict[str, str]) -> None:
    script = "import os, sys; from lab.stage import isolate; isolate.enter(); isolate.enter(); print(sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", script, "a", "b c"], env=outside, capture_output=True, text=True)
    assert done.stdout == "['a', 'b c']\n", done.stderr


def test_a_stale_mark_is_ignored(outside: dict[str, str]) -> None:
    script = (
        "from lab.stage import isolate; before = isolate.inside(); isolate.enter(); print(before, isolate.inside())"
    )
    stale = outside | {isolate.MARK: "4026531836000"}
    done = subprocess.run([sys.executable, "-c", script], env=stale, capture_output=True, text=True)
    assert done.stdout == "True True\n", done.stderr  # only the second run prints: it is inside
    assert in_world(stale, "sh", "-c", f"echo ${isolate.MARK}").stdout.strip() != stale[isolate.MARK]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_outer_process_reaches_the_command(outside: dict[str, str], number: signal.Signals) -> None:
    script = f"trap 'echo told; exit 5' {int(number)}; echo ready; sleep 1000 & wait"
    with subprocess.Popen([*WORLD, "sh", "-c", script], env=outside, stdout=subprocess.PIPE, text=True) as outer:
        assert outer.stdout is not None
        assert outer.stdout.readline() == "ready\n"
        outer.send_signal(number)
        assert outer.communicate(timeout=SOON_S)[0] == "told\n"
        assert outer.returncode == 5


def test_ctrl_c_reaches_the_command_once(outside: dict[str, str]) -> None:
    script = (
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]); print('ready', flush=True);"
        "first = signal.sigwait([signal.SIGINT]); second = signal.sigtimedwait([signal.SIGINT], 0.5);"
        "print('once' if second is None else 'twice', flush=True)"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(sys.executable, [*WORLD, sys.executable, "-c", script], outside)
    said = b""
    while b"ce\r\n" not in said:
        assert select.select([terminal], [], [], SOON_S)[0], said
        said += os.read(terminal, 1000)
        if said == b"ready\r\n":
            os.write(terminal, b"\x03")
    assert b"once" in said
    assert os.waitpid(pid, 0)[1] == 0
    os.close(terminal)


# No shell: dash unblocks signals that were blocked for it.
HELD_UNTIL_GONE = """#!{python}
import os, pathlib, sys, time
file = pathlib.Path("{file}")
file.write_text(f"{{os.getpid()}}\\n")
while file.exists():
    time.sleep(0.01)
os.execv("{program}", sys.argv)
"""


def test_ctrl_c_during_the_start_ends_the_world(outside: dict[str, str], tmp_path: Path) -> None:
    """A signal that arrives while `unshare` starts does not reach the program that it executes."""
    started, held = tmp_path / "started", tmp_path / "unshare"
    held.write_text(HELD_UNTIL_GONE.format(python=sys.executable, file=started, program=shutil.which("unshare")))
    held.chmod(0o755)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(sys.executable, [*WORLD, "sleep", "60"], outside | {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    until(lambda: started.exists() and started.read_text().endswith("\n"), "unshare is held")
    os.write(terminal, b"\x03")
    until(lambda: has_pending(int(started.read_text()), signal.SIGINT), "it has the signal")
    started.unlink()
    before = time.monotonic()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 128 + signal.SIGINT
    assert time.monotonic() - before < SOON_S
    os.close(terminal)


def has_pending(pid: int, number: signal.Signals) -> bool:
    (pending,) = re.findall(r"^ShdPnd:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(pending, 16) & 1 << (number - 1))


def test_listeners_are_passed_as_listen_fds(outside: dict[str, str]) -> None:
    inner = (
        "import os, socket; assert os.environ['LISTEN_FDS'] == '2';"
        "assert os.environ['LISTEN_PID'] == str(os.getpid());"
        "[socket.socket(fileno=fd).accept()[0].sendall(str(fd).encode()) for fd in (3, 4)]"
    )
    outer = (
        "import sys, socket; from lab.stage import isolate;"
        "ears = [socket.create_server(('127.0.0.1', 0)) for _ in range(2)];"
        "print(*(ear.getsockname()[1] for ear in ears), flush=True);"
        "isolate.enter([sys.executable, '-c', sys.argv[1]], ears)"
    )
    words = [sys.executable, "-c", outer, inner]
    with subprocess.Popen(words, env=outside, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for number, port in enumerate(process.stdout.readline().split(), 3):
            with socket.create_connection(("127.0.0.1", int(port)), SOON_S) as heard:
                assert heard.recv(10) == str(number).encode()
        assert process.wait(SOON_S) == 0


def test_inherited_descriptors_pass_through(outside: dict[str, str]) -> None:
    reader, writer = os.pipe()
    with subprocess.Popen([*WORLD, "bash", "-c", f"echo here >&{writer}"], env=outside, pass_fds=[writer]) as process:
        os.close(writer)
        assert process.wait(SOON_S) == 0
    with os.fdopen(reader) as answers:
        assert answers.read() == "here\n"


MOMENTS_S = [0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.9, 1.3, None]


@pytest.mark.parametrize("moment_s", MOMENTS_S)
def test_kill_9_leaves_nothing(outside: dict[str, str], moment_s: float | None) -> None:
    """The lab is killed at a moment or when complete. All processes that appear in this world are the lab's."""
    before = mounts(), namespaces(), processes()
    kept = cgroups()
    reader, writer = os.pipe()
    words = [sys.executable, LAB]
    with subprocess.Popen(
        words, env=outside, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=[writer]
    ) as outer:
        os.close(writer)
        assert outer.stdout is not None
        ready = select.select([outer.stdout], [], [], SOON_S if moment_s is None else moment_s)[0]
        assert not ready or outer.stdout.readline() == b"complete\n"
        assert ready or moment_s is not None
        outer.kill()
        outer.stdout.close()
    assert select.select([reader], [], [], SOON_S)[0] and os.read(reader, 1) == b""
    os.close(reader)
    for left in watched(processes() - before[2]):
        assert select.select([left], [], [], SOON_S)[0], "a process outlives the lab"
        os.close(left)
    until(lambda: (mounts(), namespaces(), processes()) == before, "all is as before")
    assert in_world(outside, "true").returncode == 0  # which removes a dead world's cgroup
    assert cgroups() == kept


def cgroups() -> set[Path]:
    """Return the cgroups of worlds in this one."""
    return set(Path(CGROUPS).glob(f"{isolate.CGROUP}*"))


def processes() -> set[int]:
    """Return all living processes, without zombies."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state = (path / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX":
                found.add(int(path.name))
    return found


def watched(pids: set[int]) -> list[int]:
    """Return a pidfd of each of these that has not ended yet."""
    found = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            found.append(os.pidfd_open(pid))
    return found


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


def namespaces() -> set[str]:
    """Return all network namespaces that a process or a mount keeps."""
    told = subprocess.run(["lsns", "--type", "net", "--noheadings", "--output", "NS"], capture_output=True, text=True)
    return set(told.stdout.split())
