# SPDX-License-Identifier: Apache-2.0
"""Run commands on this host. Errors say what to do."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# named alike by Debian and Ubuntu
PACKAGE_OF = {
    "ethtool": "ethtool",
    "ip": "iproute2",
    "nft": "nftables",
    "openssl": "openssl",
    "ovs-vsctl": "openvswitch-switch",
    "ss": "iproute2",
    "sysctl": "procps",
    "tc": "iproute2",
}
LONGEST_S = 30
OVS_ANSWERS_WITHIN_S = 10
START_OVS = "systemctl start openvswitch-switch"


class HostError(Exception):
    """A request that this host cannot fulfil. The sentence says what to do."""


@dataclass(frozen=True, slots=True)
class Answer:
    out: str
    complaint: str  # stderr of a command that succeeded


def ovs_vsctl(*words: str) -> tuple[str, ...]:
    """Return an ovs-vsctl command. OVS_RUNDIR in the environment selects the Open vSwitch."""
    return ("ovs-vsctl", f"--timeout={OVS_ANSWERS_WITHIN_S}", *words)


def run(command: tuple[str, ...], within_s: float | None = LONGEST_S) -> Answer:
    if shutil.which(command[0]) is None:
        package = PACKAGE_OF.get(command[0], command[0])
        raise HostError(f"{command[0]} is not installed: apt-get install -y {package}")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=within_s, check=False)
    except subprocess.TimeoutExpired:
        raise HostError(f"`{shlex.join(command)}` did not end within {within_s} s: run it by hand to see why") from None
    if done.returncode == 0:
        return Answer(done.stdout, _first_line(done.stderr))
    raise HostError(_refusal(command, done.returncode, done.stderr))


def ip_rows(*words: str) -> list[dict[str, Any]]:
    """Return what `ip` lists."""
    rows: list[dict[str, Any]] = json.loads(run(("ip", "-json", *words)).out or "[]")
    return rows


def wait_for(command: tuple[str, ...]) -> None:
    run(command, within_s=None)


def succeeds(command: tuple[str, ...]) -> bool:
    try:
        run(command)
    except HostError:
        return False
    return True


def sysctl(name: str) -> str | None:
    """Return the value; None: the kernel lacks it. Separate parts with slashes, as interface names may have dots."""
    path = Path("/proc/sys", name if "/" in name else name.replace(".", "/"))
    return path.read_text().strip() if path.exists() else None


def _refusal(command: tuple[str, ...], code: int, stderr: str) -> str:
    shown = shlex.join(command)
    if code in (-signal.SIGALRM, 128 + signal.SIGALRM):
        return f"ovs-vswitchd did not answer `{shown}` within {OVS_ANSWERS_WITHIN_S} s: start it ({START_OVS})"
    message = _first_line(stderr) or f"exit code {code}"
    if "database connection failed" in message:
        return f"no Open vSwitch answers ({message}): start it ({START_OVS}), or set OVS_RUNDIR to the right one"
    return f"`{shown}` was refused: {message}"


def _first_line(text: str) -> str:
    """Return the first line of an error. OVS tools append the path of their log."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
