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
from pathlib import Path

import pytest
from traffic import LinkPair

from lab.links.shape import Shape
from lab.stage.command import CommandFailed
from lab.stage.stage import raised
from tests.system.evidence import until

SOON_S = 60


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
    with raised(LinkPair(forward=Shape(delay_ms=1))) as net:
        (born,) = set(emulators()) - set(before)
        death = os.pidfd_open(born)
        os.kill(born, signal.SIGKILL)
        assert select.select([death], [], [], SOON_S)[0]
        os.close(death)
        with pytest.raises(CommandFailed, match="pair: link-emulator"):
            net.uplink("pair").forward.set(loss_percent=1)
        # The kernel removes a namespace asynchronously.
        left = net.machine("left")
        until(lambda: "link@" not in left.run("ip", "link").stdout, "the interface is gone")
    assert emulators() == before
