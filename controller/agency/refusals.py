"""What was refused to whom: an exception that says it, one line in the log, and a number for who counts."""

from __future__ import annotations

import logging
import time
from collections import Counter
from enum import StrEnum

log = logging.getLogger(__name__)

QUIET_S = 60.0  # one line for one host, name and reason in this time
REMEMBERED = 1024
LONGEST_NAME = 80  # of what a stranger calls itself


class Reason(StrEnum):
    HANDSHAKE = "handshake"  # no TLS, no certificate, or not one of our authority's
    CROWD = "crowd"  # as many connections as may be
    NAME = "name"  # no name that an agent may have
    TOKEN_UNKNOWN = "token_unknown"
    TOKEN_USED = "token_used"
    TOKEN_OLD = "token_old"
    TOKEN_OF_ANOTHER = "token_of_another"
    REQUEST = "request"  # the signing request is no good, or for another name
    REVOKED = "revoked"
    REPLACED = "replaced"  # there is a newer certificate of that name
    RIVAL = "rival"  # another stream of that name is served, and lives
    SILENCE = "silence"  # no hello
    SPEECH = "speech"  # what was said is against api/agent.proto


class Refused(Exception):
    """The sentence may be told to the peer, and says what to do."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class AgencyError(Exception):
    """Our own fault, not the peer's: a file, an address. The sentence says which, and what to do."""


class Refusals:
    """Noted in the agents' thread, read from any."""

    def __init__(self) -> None:
        self._counts: Counter[Reason] = Counter()
        self._told: dict[tuple[str, str, Reason], float] = {}

    def note(self, peer: str, name: str | None, reason: Reason, sentence: str) -> None:
        """`peer` is host:port, and each connection's port is another."""
        self._counts[reason] += 1
        name = name[:LONGEST_NAME] if name else None
        place, now = (peer.rpartition(":")[0], name or "", reason), time.monotonic()
        if now - self._told.get(place, -QUIET_S) < QUIET_S:
            return
        if len(self._told) >= REMEMBERED:
            self._told.clear()
        self._told[place] = now
        log.warning("agent %s from %s refused: %s", repr(name) if name else "without a name", peer, sentence)

    def counts(self) -> dict[Reason, int]:
        return {reason: self._counts[reason] for reason in Reason}
