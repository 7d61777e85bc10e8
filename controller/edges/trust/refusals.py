# SPDX-License-Identifier: Apache-2.0
"""Refusals of agents: an exception with the reason, one line in the log, and a counter."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

log = logging.getLogger(__name__)

QUIET_S = 60.0  # one line for one host, name and reason in this time
OUTCAST_QUIET_S = 3600.0  # one for a name that was ours; its agent tries twice a minute until somebody stops it
REMEMBERED = 1024
LONGEST_NAME = 80  # of what a stranger calls itself

K = TypeVar("K")


class Reason(StrEnum):
    HANDSHAKE = "handshake"  # no TLS, no certificate, or not one of our authority's
    CROWD = "crowd"  # as many connections as may be
    RATE = "rate"  # more in a second than may come
    NAME = "name"  # no name that an agent may have
    TOKEN_UNKNOWN = "token_unknown"
    TOKEN_USED = "token_used"
    TOKEN_OLD = "token_old"
    TOKEN_OF_ANOTHER = "token_of_another"
    REQUEST = "request"  # the signing request is no good, or for another name
    REVOKED = "revoked"
    ROLE = "role"  # it is of another role than its certificate says
    REPLACED = "replaced"  # there is a newer certificate of that name
    RIVAL = "rival"  # another stream of that name is served, and lives
    SILENCE = "silence"  # no hello
    FAULT = "fault"  # the core failed at words of this agent: its session ended, or it is not let in for a while
    SPEECH = "speech"  # what was said is against api/agent.proto


OUTCAST = frozenset({Reason.REVOKED, Reason.REPLACED})


class Refused(Exception):
    """The sentence may be told to the peer, and says what to do."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class AgencyError(Exception):
    """Our own fault, not the peer's: a file, an address. The sentence says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Try:
    """With a certificate that no longer counts."""

    at: float  # Unix seconds
    peer: str


class Refusals:
    """Noted in the agents' thread, read from any."""

    def __init__(self) -> None:
        self._counts: Counter[Reason] = Counter()
        self._told: dict[tuple[str, str, Reason], float] = {}
        self._outcasts_told: dict[tuple[str, Reason], float] = {}  # of certificates' names: no stranger fills it
        self._tries: dict[str, Try] = {}  # likewise, by name

    def note(
        self, peer: str, reason: Reason, sentence: str, *, name: str | None = None, claims: str | None = None
    ) -> None:
        """`peer` is host:port, and each connection's port is another. `name` is that of its certificate; what a
        stranger claims to be called can be another each time."""
        self._counts[reason] += 1
        if name is not None and reason in OUTCAST:
            self._tries[name] = Try(time.time(), peer)
            if _anew(self._outcasts_told, (name, reason), OUTCAST_QUIET_S):
                rest = f"it tries until its agent is stopped; not told again for {OUTCAST_QUIET_S / 60:g} min"
                log.warning("agent %r from %s refused: %s; %s", name, peer, sentence, rest)
            return
        if _anew(self._told, (peer.rpartition(":")[0], name or "", reason), QUIET_S):
            called = name or claims
            who = repr(called[:LONGEST_NAME]) if called else "without a name"
            log.warning("agent %s from %s refused: %s", who, peer, sentence)

    def counts(self) -> dict[Reason, int]:
        return {reason: self._counts[reason] for reason in Reason}

    def last_try(self, name: str) -> Try | None:
        """Of whoever comes with a certificate of this name that no longer counts, since the controller was started."""
        return self._tries.get(name)


def _anew(told: dict[K, float], what: K, quiet_s: float) -> bool:
    now = time.monotonic()
    if now - told.get(what, -quiet_s) < quiet_s:
        return False
    if len(told) >= REMEMBERED:
        told.clear()
    told[what] = now
    return True
