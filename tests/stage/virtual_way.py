# SPDX-License-Identifier: Apache-2.0
"""lab/links/emulator/way.c, compiled for the tests and driven in virtual time."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "lab" / "links" / "emulator"
NEVER = (1 << 63) - 1
MS = 1_000_000  # nanoseconds


class CShape(ctypes.Structure):
    """The struct shape of way.h."""

    _fields_ = (
        ("rate_bps", ctypes.c_uint64),
        ("queue_bytes", ctypes.c_uint64),
        ("delay_ns", ctypes.c_int64),
        ("jitter_ns", ctypes.c_int64),
        ("loss", ctypes.c_double),
        ("p", ctypes.c_double),
        ("r", ctypes.c_double),
        ("loss_good", ctypes.c_double),
        ("loss_bad", ctypes.c_double),
        ("shared", ctypes.c_uint64),
        ("contention", ctypes.c_double),
        ("others", ctypes.c_double),
    )


class CCounters(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("in_packets", "in_bytes", "out_packets", "out_bytes", "lost_packets", "dropped_packets")
    )


class CWay(ctypes.Structure):
    _fields_ = (
        ("shape", CShape),
        ("counters", CCounters),
        ("other", ctypes.c_void_p),
        ("rest", ctypes.c_byte * 2048),
    )


class CPacket(ctypes.Structure):
    _fields_ = (
        ("next", ctypes.c_void_p),
        ("at_ns", ctypes.c_int64),
        ("behind_ns", ctypes.c_int64),
        ("bytes", ctypes.c_uint32),
        ("room", ctypes.c_uint32),
        ("sender", ctypes.c_uint32),
        ("number", ctypes.c_uint32),  # where the frame begins
        ("unused", ctypes.c_byte * 2),
        ("source", ctypes.c_byte * 6),
        ("frame", ctypes.c_byte * 2000),
    )


def library(place: Path, *names: str) -> ctypes.CDLL:
    built = place / "emulator.so"
    sources = [str(SOURCES / name) for name in names]
    subprocess.run(["gcc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", str(built), *sources, "-lm"], check=True)
    return ctypes.CDLL(str(built))


def load(place: Path) -> ctypes.CDLL:
    way = library(place, "way.c", "senders.c")
    way.way_arrive.restype = ctypes.c_bool
    way.way_due.restype = ctypes.c_int64
    way.way_leave.restype = ctypes.POINTER(CPacket)
    return way


@dataclass(frozen=True)
class DepartedPacket:
    number: int
    due_ns: int


class VirtualLink:
    """One direction of a link in virtual time. Packets are numbers."""

    def __init__(self, code: ctypes.CDLL, seed: int = 1, **shape: float) -> None:
        self._code = code
        self._way = CWay()
        self._code.way_init(ctypes.byref(self._way), ctypes.c_uint64(seed))
        self._kept: dict[int, CPacket] = {}  # while the C code holds them
        self._shape = {"queue_bytes": 1 << 40} | shape
        self.shape()

    @property
    def counters(self) -> CCounters:
        return self._way.counters

    def shape(self, now_ns: int = 0, **changes: float) -> None:
        self._shape |= changes
        self._code.way_shape(ctypes.byref(self._way), ctypes.byref(CShape(**self._shape)), ctypes.c_int64(now_ns))

    def share(self, other: VirtualLink) -> None:
        """Share one channel with the other direction from now on."""
        for one, another in ((self, other), (other, self)):
            one._way.other = ctypes.addressof(another._way)
            one.shape(shared=1)

    def arrive(self, number: int, now_ns: int, size: int = 1000, source: int = 0) -> bool:
        packet = CPacket(bytes=size, number=number, source=(source,))
        kept = bool(self._code.way_arrive(ctypes.byref(self._way), ctypes.byref(packet), ctypes.c_int64(now_ns)))
        if kept:
            self._kept[number] = packet
        return kept

    def due(self) -> int:
        return int(self._code.way_due(ctypes.byref(self._way)))

    def leave(self, now_ns: int) -> list[DepartedPacket]:
        """Return all packets that are due by now."""
        left = []
        due = ctypes.c_int64()
        while packet := self._code.way_leave(ctypes.byref(self._way), ctypes.c_int64(now_ns), ctypes.byref(due)):
            left.append(DepartedPacket(packet.contents.number, due.value))
            del self._kept[packet.contents.number]
        return left
