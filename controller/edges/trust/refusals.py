# SPDX-License-Identifier: Apache-2.0
"""Refusals of agents."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

log = logging.getLogger(__name__)

QUIET_S = 60.0  # per host, name and reason
OUTCAST_QUIET_S = 3600.0  # per invalid certificate's name; its agent tries twice a minute
REMEMBERED = 1024
LONGEST_NAME = 80  # logged characters of a claimed name

K = TypeVar("K")


class Reason(StrEnum):
    HANDSHAKE = "handshake"  # no TLS, no certificate, or not one of our authority's
    CROWD = "crowd"  # of connections
    RATE = "rate"  # of new connections
    NAME = "name"  # invalid
    TOKEN_UNKNOWN = "token_unknown"
    TOKEN_USED = "token_used"
    TOKEN_OLD = "token_old"
    TOKEN_OF_ANOTHER = "token_of_another"
    REQUEST = "request"  # the signing request is invalid, or for another name
    REVOKED = "revoked"
    ROLE = "role"  # differs from the certificate's
    REPLACED = "replaced"  # by a newer certificate
    RIVAL = "rival"  # another stream of that name is served and answers
    SILENCE = "silence"  # no hello
    FAULT = "fault"  # the core failed at this agent's messages: its session ended, or it is in quarantine
    SPEECH = "speech"  # a message breaks api/agent.proto


OUTCAST = frozenset({Reason.REVOKED, Reason.REPLACED})


class Refused(Exception):
    """A refused peer. The sentence is also for the peer and says what to do."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class AgencyError(Exception):
    """A local failure, such as a file or an address. The sentence names it and the remedy."""


@dataclass(frozen=True, slots=True)
class Try:
    """An attempt with a certificate that is no longer valid."""

    at: float  # Unix seconds
    peer: str


class Refusals:
    """Counts and log lines of refusals. Written in the agents' thread, read from any."""

    def __init__(self) -> None:
        self._counts: Counter[Reason] = Counter()
        self._logged_at: dict[tuple[str, str, Reason], float] = {}
        self._outcasts_logged_at: dict[tuple[str, Reason], float] = {}  # bounded: names of certificates
        self._tries: dict[str, Try] = {}  # by name; bounded likewise

    def note(
        self, peer: str, reason: Reason, sentence: str, *, name: str | None = None, claims: str | None = None
    ) -> None:
        """Count and log a refusal, without the peer's port in the rate limit.

        `name` is the certificate's. `claims` is unauthenticated and may differ each time.
        """
        self._counts[reason] += 1
        if name is not None and reason in OUTCAST:
            self._tries[name] = Try(time.time(), peer)
            if _is_due(self._outcasts_logged_at, (name, reason), OUTCAST_QUIET_S):
                rest = (
                    "it keeps trying until it is stopped; the next message follows in "
                    f"{OUTCAST_QUIET_S / 60:g} min at the earliest"
                )
                log.warning("agent %r from %s refused: %s; %s", name, peer, sentence, rest)
            return
        if _is_due(self._logged_at, (peer.rpartition(":")[0], name or "", reason), QUIET_S):
            called = name or claims
            shown = repr(called[:LONGEST_NAME]) if called else "without a name"
            log.warning("agent %s from %s refused: %s", shown, peer, sentence)

    def counts(self) -> dict[Reason, int]:
        return {reason: self._counts[reason] for reason in Reason}

    def last_try(self, name: str) -> Try | None:
        """Return the last attempt with an invalid certificate since the controller's start."""
        return self._tries.get(name)


def _is_due(logged_at: dict[K, float], what: K, quiet_s: float) -> bool:
    now = time.monotonic()
    if now - logged_at.get(what, -quiet_s) < quiet_s:
        return False
    if len(logged_at) >= REMEMBERED:
        logged_at.clear()
    logged_at[what] = now
    return True
