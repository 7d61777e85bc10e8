# SPDX-License-Identifier: Apache-2.0
"""The programs that bicast calls, and their oldest tested versions (Debian 12)."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator

from gateway.finding import Finding, State, judged
from gateway.host import PACKAGE_OF, run
from gateway.scene import CheckContext

OLDEST = {"Open vSwitch": (3, 1), "iproute2": (6, 1), "kernel": (6, 1), "Python": (3, 11)}
SYSTEMS = "Debian 12 or 13, or Ubuntu 24.04"


def tools(context: CheckContext) -> Iterator[Finding]:
    for tool, package in PACKAGE_OF.items():
        where = shutil.which(tool)
        line = f"apt-get install -y {package}"
        yield judged(f"tool {tool}", where is not None, where or "not installed", "installed", line, else_=State.BAD)


def versions(context: CheckContext) -> Iterator[Finding]:
    have = {"kernel": os.uname().release, "Python": ".".join(map(str, sys.version_info[:3]))}
    if shutil.which("ovs-vsctl"):
        have["Open vSwitch"] = run(("ovs-vsctl", "--version")).out
    if shutil.which("ip"):
        have["iproute2"] = run(("ip", "-V")).out
    for name, text in have.items():
        yield compared(name, text)


def compared(name: str, text: str) -> Finding:
    """Return the finding. The version is the first number with a dot in the output."""
    found = re.search(r"(\d+)\.(\d+)[.\d]*", text)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    expected = f"{'.'.join(map(str, OLDEST[name]))} or later: {SYSTEMS}"
    return judged(f"version {name}", version >= OLDEST[name], found[0] if found else text, expected, else_=State.BAD)
