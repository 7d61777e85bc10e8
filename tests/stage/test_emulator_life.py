# SPDX-License-Identifier: Apache-2.0
"""An emulated link lives exactly as long as its stage."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mininet.topo import Topo

from lab.links.links import ShapedLink
from lab.links.shape import Shape
from lab.stage.command import CommandFailed
from lab.stage.nodes import Machine
from lab.stage.stage import raised

SOON_S = 60


class HostPair(Topo):  # type: ignore[misc]  # Mininet is untyped
    """left ── right"""

    def build(self) -> None:
        for name in ("left", "right"):
            self.addHost(name, cls=Machine)
        self.addLink(
            "left", "right", cls=ShapedLink, intfName1="link", intfName2="link", label="pair", forward=Shape(delay_ms=1)
        )


def emulators() -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if path.read_text() == "link-emulator\n":
                found.append(int(path.parts[2]))
    return found


def test_the_emulator_ends_when_its_parent_is_killed() -> None:
    """Its namespace ends, too: it would otherwise keep both ends of the link."""
    script = (
        "import signal; from lab.links.emulator import Emulator; emulator = Emulator('orphan');"
        "print(emulator.pid, flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        emulator = int(parent.stdout.readline())
        death = os.pidfd_open(emulator)
        namespace = Path(f"/proc/{emulator}/ns/net").readlink()
        parent.kill()
    assert select.select([death], [], [], SOON_S)[0]
    os.close(death)
    told = json.loads(subprocess.run(["lsns", "-t", "net", "-J"], capture_output=True, text=True).stdout)
    assert str(namespace).strip("net:[]") not in {str(each["ns"]) for each in told["namespaces"]}


def test_a_dead_emulator_is_named_and_leaves_no_interfaces() -> None:
    before = emulators()
    with raised(HostPair()) as net:
        (born,) = set(emulators()) - set(before)
        death = os.pidfd_open(born)
        os.kill(born, signal.SIGKILL)
        assert select.select([death], [], [], SOON_S)[0]
        os.close(death)
        with pytest.raises(CommandFailed, match="pair: link-emulator"):
            net.uplink("pair").forward.set(loss_percent=1)
        # The kernel removes a namespace asynchronously.
        deadline = time.monotonic() + SOON_S
        while "link@" in (told := net.machine("left").run("ip", "link").stdout):
            assert time.monotonic() < deadline, told
    assert emulators() == before


def test_emulators_end_with_their_stage() -> None:
    before = emulators()
    with raised(HostPair()):
        assert len(emulators()) == len(before) + 1
    assert emulators() == before
