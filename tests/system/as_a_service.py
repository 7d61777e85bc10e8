"""Runs a program with the rights that systemd leaves a gateway's agent, and with the capabilities that are named.

    as_a_service.py [CAPABILITY ...] -- PROGRAM ARGUMENT...

Capabilities and families of sockets are what the unit and the drop-in say. A family that they do not name is answered
as systemd has it answered (EAFNOSUPPORT). No systemd runs where tests do.
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
FILES = ("bicast-agent.service", "bicast-agent-gateway.conf")
# linux/prctl.h, linux/seccomp.h, linux/filter.h, linux/errno.h, and the number of socket(2) on both kinds of machine
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO, EAFNOSUPPORT = 0x7FFF0000, 0x00050000, 97
SOCKET = {"x86_64": 41, "aarch64": 198}[os.uname().machine]
NUMBER_AT, FIRST_ARGUMENT_AT = 0, 16  # in struct seccomp_data


def listed(key: str) -> list[str]:
    """What a key names, in all of the files: systemd joins these lists."""
    text = "\n".join((DEPLOY / file).read_text() for file in FILES)
    return [word for line in re.findall(rf"^{key}=(.*)$", text, re.MULTILINE) for word in line.split()]


def only_these(families: list[int]) -> bytes:
    """A filter, in classic BPF: its jumps are to so many instructions further on, where equal and where not."""
    program = [(LOAD, 0, 0, NUMBER_AT), (EQUAL, 0, len(families) + 2, SOCKET), (LOAD, 0, 0, FIRST_ARGUMENT_AT)]
    program += [(EQUAL, len(families) - at, 0, family) for at, family in enumerate(families)]
    program += [(RETURN, 0, 0, ERRNO | EAFNOSUPPORT), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *each) for each in program)


def restrict() -> None:
    code = only_these([getattr(socket, family) for family in listed("RestrictAddressFamilies")])
    kept = ctypes.create_string_buffer(code)
    filtered = ctypes.create_string_buffer(struct.pack("HP", len(code) // 8, ctypes.addressof(kept)))
    library = ctypes.CDLL(None, use_errno=True)
    for words in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filtered, 0, 0)):
        if library.prctl(*words) != 0:
            raise OSError(ctypes.get_errno(), f"prctl {words[0]} is refused")


def main() -> None:
    between = sys.argv.index("--")
    rights = [*listed("CapabilityBoundingSet"), *sys.argv[1:between]]
    kept = ",".join("+" + right.removeprefix("CAP_").lower() for right in rights)
    restrict()
    words = ["setpriv", f"--bounding-set=-all,{kept}", "--inh-caps=-all", *sys.argv[between + 1 :]]
    os.execvp(words[0], words)


if __name__ == "__main__":
    main()
