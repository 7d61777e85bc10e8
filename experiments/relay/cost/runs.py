"""What is measured: transfers, first bytes, a crowd and many short connections, each by one way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moved:
    """One transfer."""

    way: str
    direction: str
    number: int
    whole: bool
    gbit: float
    seconds: float
    gateway_s: float  # processor time
    relay_s: float
    stalled: str

    @property
    def gbps(self) -> float:
        return self.gbit / self.seconds

    def __str__(self) -> str:
        if not self.whole:
            return f"{self.direction} {self.number}, {self.way}: BROKEN"
        spent = f"{self.gateway_s / self.gbit:.2f} and {self.relay_s / self.gbit:.2f} s of a processor a Gbit"
        return f"{self.direction} {self.number}, {self.way}: {self.gbps:.2f} Gbit/s, {spent}"


@dataclass(frozen=True, slots=True)
class Reached:
    """Some connections, one after the other: since each began."""

    way: str
    number: int
    connected_ms: tuple[float, ...]
    first_ms: tuple[float, ...]
    stalled: str

    def __str__(self) -> str:
        return f"first byte {self.number}, {self.way}: {', '.join(f'{each:.1f}' for each in self.first_ms)} ms"


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds."""

    resident_mb: float
    files: int


@dataclass(frozen=True, slots=True)
class Crowded:
    """Many connections open at once."""

    way: str
    asked: int
    answered: int  # again, when all were open
    gateway_mb: float  # more than before
    relay_mb: float
    unread: bool = False  # each asked for a transfer, and nobody reads it; else they are idle
    stalled: str = ""  # nothing here is a time

    def __str__(self) -> str:
        told = f"{self.answered} of {self.asked} open at once {'have what nobody reads' if self.unread else 'answer'}"
        return f"{told}, {self.way}: {self.gateway_mb:.0f} and {self.relay_mb:.0f} MB more"


@dataclass(frozen=True, slots=True)
class Passed:
    """Many short connections; what both ends hold after each step of them, and before."""

    way: str
    asked: int
    answered: int
    gateway: tuple[Held, ...]
    relay: tuple[Held, ...]
    stalled: str = ""

    def __str__(self) -> str:
        ends = (f"{end[0].resident_mb:.0f} -> {end[-1].resident_mb:.0f} MB" for end in (self.gateway, self.relay))
        return f"{self.answered} of {self.asked} short ones answered, {self.way}: {' and '.join(ends)}"


Run = Moved | Reached | Crowded | Passed
