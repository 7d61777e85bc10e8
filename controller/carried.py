"""What agents say of terminals' connections that are carried to relays, and of how far places are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Relaying:
    """A relay, as it stands."""

    because: str  # why it does not; empty: it does
    draining: bool
    connections: int  # carried now
    waiting: int  # opened, and nothing asked for yet
    carried: int  # connections, those that have ended, too
    refused: int  # requests for what no gateway reaches, or beyond a limit
    failed: int  # requests for destinations that did not answer
    strangers: int
    bytes_up: int  # to servers
    bytes_down: int
    overhead_us: int  # what it holds an answer's bytes back; 0: not known
    busy_percent: int  # of one processor, the least idle one of its host
    congestion: str  # what it sends with


@dataclass(frozen=True, slots=True)
class RelayReached:
    name: str
    because: str  # why it cannot be; empty: it can
    connections: int  # by it, now
    opened: int  # in store
    setup_us: int  # TCP and TLS of the last that was opened; 0: none was


@dataclass(frozen=True, slots=True)
class TerminalTaken:
    name: str
    connections: int  # now
    relayed: int  # connections, since the order came
    direct: int
    reset: int
    bytes_up: int
    bytes_down: int


@dataclass(frozen=True, slots=True)
class Sought:
    """A place for which no choice stands."""

    prefix: str  # a /24 or a /48
    address: str  # that was asked for there
    port: int


@dataclass(frozen=True, slots=True)
class Taking:
    """Terminals' connections, as a gateway takes them."""

    because: str  # why nothing is taken; empty: it is
    relays: tuple[RelayReached, ...]
    terminals: tuple[TerminalTaken, ...]
    sought: tuple[Sought, ...]  # the newest first


@dataclass(frozen=True, slots=True)
class Router:
    address: str  # empty: it does not say
    rtt_us: int


@dataclass(frozen=True, slots=True)
class Way:
    address: str
    because: str  # why it is not known; empty: it is
    rtt_us: int  # the least; 0: not known
    routers: tuple[Router, ...]  # the nearest first


@dataclass(frozen=True, slots=True)
class Walked:
    """What came of an order to walk."""

    session: int
    directive: int
    ways: tuple[Way, ...]  # in the order of the order
