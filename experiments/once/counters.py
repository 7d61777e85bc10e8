"""What the kernel has counted: of TCP in a machine's namespace, and of bytes that came and left by a device."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from lab.stage.nodes import Machine

# RFC 2883: the receiver says that a segment came which it had; twice of what it has delivered, twice of what waits.
DSACKS = ("TcpExt:TCPDSACKRecv", "TcpExt:TCPDSACKOfoRecv")
# The sender has found out that what it sent again was not lost, and takes the reaction to it back.
UNDONE = tuple(f"TcpExt:TCP{how}Undo" for how in ("Full", "Partial", "DSACK", "Loss"))


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes of frames."""

    came: int
    left: int  # what a queue or a loss has taken is not among them


def segments(machine: Machine) -> Counter[str]:
    """By group and name, as `nstat` joins them: Tcp:OutSegs."""
    found: Counter[str] = Counter()
    for table in ("snmp", "netstat"):
        lines = Path(f"/proc/{machine.pid}/net/{table}").read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            group, *words = names.split()
            numbers = zip(words, values.split()[1:], strict=True)
            found.update({group + name: int(value) for name, value in numbers})
    return found


def moved(*devices: str, pid: int | str = "self") -> Moved:
    """By these devices together, of the namespace that this process is in."""
    came = left = 0
    for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]:
        name, _, words = line.partition(":")
        if name.strip() in devices:
            fields = words.split()
            came, left = came + int(fields[0]), left + int(fields[8])
    return Moved(came, left)
