# SPDX-License-Identifier: Apache-2.0
"""Run an agent with the rights of its systemd service, with capabilities more (CAP_X) or less (-CAP_X).

    as_a_service.py [CAPABILITY ...] -- PROGRAM ARGUMENT...

The unit and the drop-in of its role determine capabilities, families of sockets and writable directories. Other
families fail with EAFNOSUPPORT, like under systemd. No systemd runs where tests run.

`--directory` is mounted at the state directory of the unit, and its runtime/ at the unit's directory in /run. An agent
of a terminal lives in the namespace that it reads, the one of `--netns`.
"""

from __future__ import annotations

import ctypes
import os
import re
import socket
import struct
import sys
from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
UNIT = "bicast-agent@.service"
DEFAULT_ROLE = "terminal"
# linux/prctl.h, linux/seccomp.h, linux/filter.h, linux/errno.h, and the number of socket(2) on both kinds of machine
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO, EAFNOSUPPORT = 0x7FFF0000, 0x00050000, 97
SOCKET = {"x86_64": 41, "aarch64": 198}[os.uname().machine]
NUMBER_AT, FIRST_ARGUMENT_AT = 0, 16  # in struct seccomp_data
# linux/sched.h, linux/mount.h, linux/fcntl.h, and the number of mount_setattr(2) everywhere
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
MOUNT_SETATTR, READ_ONLY, AT_FDCWD, AT_RECURSIVE = 442, 1, -100, 0x8000
STRICT = ("/dev", "/proc", "/sys")  # ProtectSystem=strict does not change these

library = ctypes.CDLL(None, use_errno=True)


class UnitSettings:
    """The settings of a role's unit files."""

    def __init__(self, role: str) -> None:
        files = [DEPLOY / UNIT, *sorted(DEPLOY.glob(f"bicast-agent@{role}.service.d/*.conf"))]
        self._text = "\n".join(file.read_text() for file in files)

    def listed(self, key: str) -> list[str]:
        """Return the words of a key in all of the files: systemd joins these lists."""
        return [word for line in re.findall(rf"^{key}=(.*)$", self._text, re.MULTILINE) for word in line.split()]


def called(name: str, *arguments: int | bytes | None) -> None:
    if getattr(library, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{name} {arguments} is refused")


def confine(service: UnitSettings, place: Path) -> None:
    """Confine the process to a view of the files that is writable where the unit allows it."""
    (strict,) = service.listed("ProtectSystem")
    assert strict == "strict", f"ProtectSystem={strict}, of which nothing is known here"
    called("unshare", CLONE_NEWNS)
    called("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    called("mount", b"none", b"/var/lib", b"tmpfs", 0, None)
    own = {Path("/var/lib", name): place for name in service.listed("StateDirectory")}
    for name in service.listed("RuntimeDirectory"):
        own[Path("/run", name)] = runtime = place / "runtime"
        runtime.mkdir(exist_ok=True)
        runtime.chmod(int(service.listed("RuntimeDirectoryMode")[-1], base=8))
    for there, here in own.items():
        there.mkdir(exist_ok=True)
        called("mount", str(here).encode(), str(there).encode(), None, MS_BIND, None)
    set_attributes("/", READ_ONLY, 0)
    for path in (*STRICT, *map(str, own)):
        set_attributes(path, 0, READ_ONLY)


def set_attributes(path: str, on: int, off: int) -> None:
    called("syscall", MOUNT_SETATTR, AT_FDCWD, path.encode(), AT_RECURSIVE, struct.pack("4Q", on, off, 0, 0), 32)


def enter(netns: str) -> None:
    with Path(netns).open(encoding="utf-8") as there:
        called("setns", there.fileno(), CLONE_NEWNET)


def only_these(families: list[int]) -> bytes:
    """Return a filter in classic BPF. Its jumps skip this many instructions if equal, and if not."""
    program = [(LOAD, 0, 0, NUMBER_AT), (EQUAL, 0, len(families) + 2, SOCKET), (LOAD, 0, 0, FIRST_ARGUMENT_AT)]
    program += [(EQUAL, len(families) - at, 0, family) for at, family in enumerate(families)]
    program += [(RETURN, 0, 0, ERRNO | EAFNOSUPPORT), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *each) for each in program)


def restrict(service: UnitSettings) -> None:
    code = only_these([getattr(socket, family) for family in service.listed("RestrictAddressFamilies")])
    kept = ctypes.create_string_buffer(code)
    filtered = struct.pack("HP", len(code) // 8, ctypes.addressof(kept))
    called("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    called("prctl", PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filtered, 0, 0)


def taken(words: list[str], option: str) -> str | None:
    """Remove an option from the words and return its value."""
    if option not in words:
        return None
    at = words.index(option)
    _, value = words[at : at + 2]
    del words[at : at + 2]
    return value


def main() -> None:
    between = sys.argv.index("--")
    wished, words = sys.argv[1:between], sys.argv[between + 1 :]
    role = words[words.index("--role") + 1] if "--role" in words else DEFAULT_ROLE
    service = UnitSettings(role)
    less = {each.removeprefix("-") for each in wished if each.startswith("-")}
    more = {each for each in wished if not each.startswith("-")}
    rights = sorted({*service.listed("CapabilityBoundingSet"), *more} - less)
    kept = ",".join("+" + right.removeprefix("CAP_").lower() for right in rights)
    if role == DEFAULT_ROLE and (netns := taken(words, "--netns")):
        enter(netns)
    if place := taken(words, "--directory"):
        confine(service, Path(place))
    restrict(service)
    command = ["setpriv", f"--bounding-set=-all,{kept}", "--inh-caps=-all", *words]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
