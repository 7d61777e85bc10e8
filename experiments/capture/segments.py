"""TCP segments as tshark reads them from a capture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.stage import command

FIELDS = (
    "ip.src", "tcp.srcport", "ip.dst", "tcp.dstport", "tcp.seq_raw", "tcp.seq", "tcp.ack", "tcp.len", "tcp.flags.push",
    "tcp.flags.syn", "tcp.flags.fin",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Segment:
    source: str
    source_port: int
    destination: str
    destination_port: int
    raw_sequence: int  # as on the wire
    sequence: int  # from the connection's first
    acknowledged: int
    payload_bytes: int
    push: bool
    ends: bool  # it opens or closes the connection

    @property
    def identity(self) -> tuple[object, ...]:
        """What a copy has in common with its original."""
        ports = (self.source_port, self.destination_port)
        return (self.source, self.destination, *ports, self.raw_sequence, self.payload_bytes)

    @property
    def next_sequence(self) -> int:
        return self.sequence + self.payload_bytes

    def __str__(self) -> str:
        """As tcpdump writes it, and the paper."""
        flags = "P." if self.push else "."
        sequence = f" seq {self.sequence}:{self.next_sequence}," if self.payload_bytes else ""
        return f"{self.source} > {self.destination}: Flags [{flags}],{sequence} ack {self.acknowledged}"


def read(pcap: Path) -> list[Segment]:
    fields = [word for field in FIELDS for word in ("-e", field)]
    told = command.run("tshark", "-n", "-r", str(pcap), "-Y", "tcp", "-T", "fields", *fields, where=str(pcap)).stdout
    return [_segment(line.split("\t")) for line in told.splitlines()]


def _segment(words: list[str]) -> Segment:
    source, source_port, destination, destination_port, *numbers, push, syn, fin = words
    raw_sequence, sequence, acknowledged, payload_bytes = (int(number or 0) for number in numbers)
    ends = "1" in _bits(syn, fin)
    return Segment(
        source, int(source_port), destination, int(destination_port), raw_sequence, sequence, acknowledged,
        payload_bytes, "1" in _bits(push), ends,
    )  # fmt: skip


def _bits(*words: str) -> set[str]:
    """tshark 3 writes 1 for a set flag, tshark 4 True."""
    return {"1" if word in ("1", "True") else "0" for word in words}
