"""What stands in ledger.json: who has which certificates and tokens, as text and as values. What is not as we write it
is refused whole: who is let in is not guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from controller import kept
from controller.configuration.document import ConfigError, Place
from controller.enrolling import NAME

VERSION = 2
BEFORE = 1  # had no digests of certificates; it is read
DIGEST = re.compile(r"(?:[0-9a-f]{64})?")
MOST = 1 << 16  # of one name; far above what can be, for a file that is not ours


@dataclass(frozen=True, slots=True)
class Token:
    digest: str
    until: float
    used_at: float | None = None


@dataclass(frozen=True, slots=True)
class Issued:
    serial: str
    since: float
    until: float
    sha256: str = ""  # of the certificate, in DER; empty: it has not been shown since there are digests


@dataclass(frozen=True, slots=True)
class Entry:
    """What one name has. Times are Unix seconds."""

    certificates: tuple[Issued, ...] = ()  # the newest last
    revoked_at: float | None = None
    tokens: tuple[Token, ...] = ()  # one that is good at most, and it is the last


Entries = dict[str, Entry]


def written(entries: Mapping[str, Entry]) -> bytes:
    agents = {name: asdict(entry) for name, entry in entries.items()}
    return json.dumps({"version": VERSION, "agents": agents}, indent=1).encode()


def read(path: Path, text: bytes) -> Entries:
    """Raises ConfigError."""
    place = kept.document(path, text)
    kept.version(place, VERSION, BEFORE)
    agents = place.mapping(required=("version", "agents"))["agents"]
    return {_name(each, name): _entry(each) for name, each in agents.named().items()}


def _name(place: Place, name: str) -> str:
    if not NAME.fullmatch(name):
        raise ConfigError(place.file, "agents", name, "a name of an agent: a-z, 0-9 and '-', 63 at most, no '-' first")
    return name


def _entry(place: Place) -> Entry:
    keys = place.mapping(required=("certificates", "revoked_at", "tokens"))
    return Entry(
        tuple(_issued(each) for each in keys["certificates"].each(MOST, "certificates")),
        _maybe_moment(keys["revoked_at"]),
        tuple(_token(each) for each in keys["tokens"].each(MOST, "tokens")),
    )


def _issued(place: Place) -> Issued:
    keys = place.mapping("sha256", required=("serial", "since", "until"))
    times = kept.moment(keys["since"]), kept.moment(keys["until"])
    return Issued(keys["serial"].text(), *times, keys.maybe("sha256", _digest, ""))


def _digest(place: Place) -> str:
    found = place.value
    if not isinstance(found, str) or not DIGEST.fullmatch(found):
        raise place.wrong("64 hexadecimal digits, or none")
    return found


def _token(place: Place) -> Token:
    keys = place.mapping(required=("digest", "until", "used_at"))
    return Token(keys["digest"].text(), kept.moment(keys["until"]), _maybe_moment(keys["used_at"]))


def _maybe_moment(place: Place) -> float | None:
    return None if place.value is None else kept.moment(place)
