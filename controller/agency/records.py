"""What stands in ledger.json: who has which certificates and tokens, as text and as values. What is not as we write it
is refused whole: who is let in is not guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from controller import binding, kept
from controller.binding import Binding
from controller.configuration.document import ConfigError, Place
from controller.enrolling import NAME

VERSION = 3  # those before it had no roles
DIGEST = re.compile(r"[0-9a-f]{64}")
MOST = 1 << 16  # of one name; far above what can be, for a file that is not ours


@dataclass(frozen=True, slots=True)
class Token:
    digest: str
    until: float
    binding: Binding
    used_at: float | None = None


@dataclass(frozen=True, slots=True)
class Issued:
    serial: str
    since: float
    until: float
    binding: Binding
    sha256: str  # of the certificate, in DER
    key_sha256: str  # of its public key


@dataclass(frozen=True, slots=True)
class Entry:
    """What one name has. Times are Unix seconds."""

    certificates: tuple[Issued, ...] = ()  # the newest last
    revoked_at: float | None = None
    tokens: tuple[Token, ...] = ()  # one that is good at most, and it is the last


Entries = dict[str, Entry]


def written(entries: Mapping[str, Entry]) -> bytes:
    agents = {name: _plain(entry) for name, entry in entries.items()}
    return json.dumps({"version": VERSION, "agents": agents}, indent=1).encode()


def _plain(entry: Entry) -> dict[str, object]:
    """The entry as JSON has it."""
    return {
        "certificates": [{**asdict(each), "binding": each.binding.uri} for each in entry.certificates],
        "revoked_at": entry.revoked_at,
        "tokens": [{**asdict(each), "binding": each.binding.uri} for each in entry.tokens],
    }


def read(path: Path, text: bytes) -> Entries:
    """Raises ConfigError."""
    place = kept.document(path, text)
    kept.version(place, VERSION)
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
    keys = place.mapping(required=("serial", "since", "until", "binding", "sha256", "key_sha256"))
    times = kept.moment(keys["since"]), kept.moment(keys["until"])
    digests = _digest(keys["sha256"]), _digest(keys["key_sha256"])
    return Issued(keys["serial"].text(), *times, _binding(keys["binding"]), *digests)


def _digest(place: Place) -> str:
    found = place.value
    if not isinstance(found, str) or not DIGEST.fullmatch(found):
        raise place.wrong("64 hexadecimal digits")
    return found


def _token(place: Place) -> Token:
    keys = place.mapping(required=("digest", "until", "binding", "used_at"))
    until, used_at = kept.moment(keys["until"]), _maybe_moment(keys["used_at"])
    return Token(keys["digest"].text(), until, _binding(keys["binding"]), used_at)


def _binding(place: Place) -> Binding:
    found = binding.parsed(place.text())
    if found is None:
        raise place.wrong(f"a role such as {binding.PREFIX}gateway or {binding.PREFIX}terminal:NAME")
    return found


def _maybe_moment(place: Place) -> float | None:
    return None if place.value is None else kept.moment(place)
