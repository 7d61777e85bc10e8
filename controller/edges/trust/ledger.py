# SPDX-License-Identifier: Apache-2.0
"""The ledger of tokens and valid certificates.

A certificate is valid because the ledger lists it, not because it was never revoked: a lost ledger admits no agent. The
one before the newest stays valid until the newest is used once, since the reply that carries it may be lost. Of a
token, only the hash is kept.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from controller.edges.config.document import Node
from controller.edges.state import files
from controller.edges.trust.refusals import AgencyError, Reason, Refused
from controller.model.config import EVERYBODY, ConfigError
from controller.protocol import enrolment
from controller.protocol.enrolment import NAME, Binding, Credential, Vouched

log = logging.getLogger(__name__)

# The clock: a machine without a clock battery starts in 1970, and its certificates would be refused later

DAY_S = 86400.0
SOONEST_S = DAY_S  # a certificate is valid from one day earlier
LATEST_S = files.TIMES_END - 7301 * DAY_S  # a CA is valid for twenty years


def checked_clock(now: float) -> float:
    """Return the time, in Unix seconds, or raise AgencyError if it is implausible."""
    if not SOONEST_S <= now < LATEST_S:
        raise AgencyError(
            f"the clock of this machine shows {now:.0f} s after the start of 1970, too early to "
            "issue certificates: set the clock (`timedatectl`) and try again"
        )
    return now


# Errors name the path, the reason and the remedy.


def read_file(path: Path) -> bytes | None:
    """Return the file's content, or None if it does not exist."""
    try:
        return files.read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AgencyError(f"{path} cannot be read ({error.strerror}): {files.remedy(error)}") from None


def replace_file(path: Path, content: bytes) -> None:
    try:
        files.replace(path, content)
    except OSError as error:
        raise AgencyError(
            f"{path} cannot be written ({error.strerror}): {files.remedy(error)}; controller.agents.directory in "
            "gateway.yaml sets its place"
        ) from None


# Any deviation from the format of ledger.json refuses the whole file.

VERSION = 5
READ = (
    3,
    4,
    VERSION,
)  # older ones had no keys of tunnels; in 3 certificates had dates of their own, and before it no roles
DIGEST = re.compile(r"[0-9a-f]{64}")
MOST = 1 << 16  # entries of one name; far above any real number


@dataclass(frozen=True, slots=True)
class Token:
    digest: str
    until: float
    binding: Binding
    used_at: float | None = None


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate. It is valid for LIFETIME_S of the controller's running time, whatever a clock shows."""

    serial: str
    since: float
    age_s: float
    binding: Binding
    key_sha256: str
    tunnel_keys: tuple[str, ...] = ()  # of a gateway, in hexadecimal; empty: it has not connected yet


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The certificates and tokens of one name. Times are Unix seconds."""

    certificates: tuple[Issued, ...] = ()  # newest last
    revoked_at: float | None = None
    tokens: tuple[Token, ...] = ()  # only the last may be unused

    @property
    def used_tokens(self) -> tuple[Token, ...]:
        return tuple(each for each in self.tokens if each.used_at is not None)


Entries = dict[str, LedgerEntry]


def written_entries(entries: Mapping[str, LedgerEntry]) -> bytes:
    agents = {name: _plain(entry) for name, entry in entries.items()}
    return json.dumps({"version": VERSION, "agents": agents}, indent=1).encode()


def _plain(entry: LedgerEntry) -> dict[str, object]:
    return {
        "certificates": [{**asdict(each), "binding": each.binding.uri} for each in entry.certificates],
        "revoked_at": entry.revoked_at,
        "tokens": [{**asdict(each), "binding": each.binding.uri} for each in entry.tokens],
    }


def read_entries(path: Path, text: bytes) -> Entries:
    place = files.document(path, text)
    files.version(place, *READ)
    agents = place.mapping(required=("version", "agents"))["agents"]
    return {_name(each, name): _entry(each) for name, each in agents.named().items()}


def _name(place: Node, name: str) -> str:
    if not NAME.fullmatch(name):
        raise ConfigError(
            place.file, "agents", name, "a name of an agent: at most 63 of a-z, 0-9 and '-', not starting with '-'"
        )
    return name


def _entry(place: Node) -> LedgerEntry:
    keys = place.mapping(required=("certificates", "revoked_at", "tokens"))
    return LedgerEntry(
        tuple(_issued(each) for each in keys["certificates"].each(MOST, "certificates")),
        _maybe_moment(keys["revoked_at"]),
        tuple(_token(each) for each in keys["tokens"].each(MOST, "tokens")),
    )


def _issued(place: Node) -> Issued:
    keys = place.mapping(
        "age_s", "until", "sha256", "tunnel_keys", required=("serial", "since", "binding", "key_sha256")
    )
    return Issued(
        keys["serial"].text(),
        files.moment(keys["since"]),
        keys.maybe("age_s", files.moment, 0.0),
        _binding(keys["binding"]),
        _digest_in(keys["key_sha256"]),
        keys.maybe("tunnel_keys", _tunnel_keys, ()),
    )


def _tunnel_keys(place: Node) -> tuple[str, ...]:
    return tuple(_digest_in(each) for each in place.each(enrolment.TUNNEL_KEYS, "public keys"))


def _digest_in(place: Node) -> str:
    found = place.value
    if not isinstance(found, str) or not DIGEST.fullmatch(found):
        raise place.wrong("64 hexadecimal digits")
    return found


def _token(place: Node) -> Token:
    keys = place.mapping(required=("digest", "until", "binding", "used_at"))
    until, used_at = files.moment(keys["until"]), _maybe_moment(keys["used_at"])
    return Token(keys["digest"].text(), until, _binding(keys["binding"]), used_at)


def _binding(place: Node) -> Binding:
    found = enrolment.parsed(place.text())
    if found is None:
        raise place.wrong(f"a role such as {enrolment.PREFIX}gateway or {enrolment.PREFIX}terminal:NAME")
    return found


def _maybe_moment(place: Node) -> float | None:
    return None if place.value is None else files.moment(place)


TOKEN_LIVES_S = 15 * 60.0
USED_REMEMBERED_S = 24 * 3600.0  # to report a second use as such
LIFETIME_S = 90 * 24 * 3600.0
RENEWED_AFTER_S = LIFETIME_S / 3
SENT_AGAIN_S = 3600.0  # a renewed certificate that its agent has not used yet


class Ledger:
    """The ledger, for any thread. A change that cannot be saved raises AgencyError and has no effect.

    Only a revocation takes effect at once, and `save` writes it.
    """

    def __init__(self, path: Path, new: bool, clock: Callable[[], float] = time.time) -> None:
        """`new`: the CA has signed nothing. Otherwise a missing ledger is logged as lost."""
        self._path, self._clock = path, clock
        self._lock = threading.RLock()
        self._entries = _load(path, new)
        self._saved = True
        self._tell: Callable[[Vouched], None] = lambda _: None

    def tell(self, listener: Callable[[Vouched], None]) -> None:
        """Call `listener` with the valid certificates now and at each change. It must not block."""
        with self._lock:
            self._tell = listener
            listener(self.vouched())

    def vouched(self) -> dict[str, Credential]:
        """Return the certificate in use by name: of two the older, until the newer is used."""
        first = ((name, entry.certificates[0]) for name, entry in self._entries.items() if entry.certificates)
        return {
            name: Credential(
                one.binding.role, bytes.fromhex(one.key_sha256), tuple(bytes.fromhex(each) for each in one.tunnel_keys)
            )
            for name, one in first
        }

    def entries(self) -> dict[str, LedgerEntry]:
        return dict(self._entries)

    def enrol(self, name: str, secret: str, binding: Binding) -> float:
        """Make `secret` the only valid token. Return when it expires."""
        check_name(name)
        with self._lock:
            now = checked_clock(self._clock())
            entry = self._entries.get(name, LedgerEntry())
            spent = tuple(each for each in entry.tokens if each.used_at and now - each.used_at < USED_REMEMBERED_S)
            token = Token(_digest(secret), now + TOKEN_LIVES_S, binding)
            self._keep(name, replace(entry, tokens=(*spent, token)))
            return token.until

    def withdraw(self, name: str) -> bool:
        """Forget an unused token. Return whether there was one."""
        with self._lock:
            entry = self._entries[name]
            used = entry.used_tokens
            if used != entry.tokens:
                self._keep(name, replace(entry, tokens=used))
            return used != entry.tokens

    def redeem(self, name: str, secret: str, issue: Callable[[Binding], Issued]) -> None:
        """Save the certificate from `issue` and use the token up. If `issue` raises, the token stays valid."""
        with self._lock:
            token = self._good(name, secret)
            now = checked_clock(self._clock())
            issued = issue(token.binding)
            entry = self._entries[name]
            spent = replace(token, used_at=now)
            self._keep(
                name,
                LedgerEntry(
                    # Keep two: an agent that never receives the reply and retries would fill the file.
                    (*entry.certificates[-1:], issued),
                    None,
                    tuple(spent if each == token else each for each in entry.tokens),
                ),
            )

    def renew(self, name: str, serial: str, issue: Callable[[Binding], Issued]) -> None:
        """Save a certificate from `issue` beside the one in use if that is old. It must be for the same key."""
        with self._lock:
            certificates = self._entries.get(name, LedgerEntry()).certificates
            used = next((each for each in certificates if each.serial == serial), None)
            if used is None or used.age_s < RENEWED_AFTER_S:
                return
            newest = certificates[-1]
            if newest is not used and (newest.key_sha256 != used.key_sha256 or newest.age_s < SENT_AGAIN_S):
                return  # the host has joined again, or has the new one already
            self._keep(name, replace(self._entries[name], certificates=(used, issue(used.binding))))

    def bind(self, name: str, serial: str, tunnel_keys: tuple[bytes, ...]) -> None:
        """Record a gateway's public keys, for the certificate's key and all its renewals. Then call `save`."""
        with self._lock:
            certificates = self._entries.get(name, LedgerEntry()).certificates
            shown = next((each for each in certificates if each.serial == serial), None)
            if shown is None:
                return
            found = tuple(each.hex() for each in tunnel_keys)
            same = [each for each in certificates if each.key_sha256 == shown.key_sha256]
            if any(each.tunnel_keys not in ((), found) for each in same):
                raise Refused(
                    Reason.SPEECH,
                    f"{name} shows other public keys for tunnels than before, with the same certificate: unless its "
                    f"identity was copied, run `bicast enroll {name}` on the controller, and join again",
                )
            bound = tuple(replace(each, tunnel_keys=found) if each in same else each for each in certificates)
            if bound != certificates:
                self._put({**self._entries, name: replace(self._entries[name], certificates=bound)})
                self._saved = False

    def passed(self, seconds: float) -> None:
        """Count time in which the controller ran, and forget certificates that were not renewed. Then call `save`."""
        with self._lock:
            entries = {name: _older(entry, seconds) for name, entry in self._entries.items()}
            if entries != self._entries:
                self._put({name: entry for name, entry in entries.items() if entry != LedgerEntry()})
                self._saved = False

    def revoke(self, name: str) -> float:
        """Return the time. The caller calls `save` next."""
        with self._lock:
            entry = self._entries[name]
            spent = entry.used_tokens
            if entry.revoked_at is not None and spent == entry.tokens:
                return entry.revoked_at
            now = min(max(self._clock(), 0.0), LATEST_S)  # a revocation holds even if the clock is wrong
            self._put({**self._entries, name: LedgerEntry((), now, spent)})
            self._saved = False
            return now

    def save(self) -> None:
        with self._lock:
            if not self._saved:
                replace_file(self._path, written_entries(self._entries))
                self._saved = True

    def check(self, name: str, serial: str) -> None:
        entry = self._entries.get(name, LedgerEntry())
        if any(each.serial == serial for each in entry.certificates):
            return
        again = f"run `bicast enroll {name}` on the controller, and join again"
        if entry.certificates:
            raise Refused(Reason.REPLACED, f"a newer certificate of {name} has been used: {again}")
        if entry.revoked_at is not None:
            raise Refused(Reason.REVOKED, f"the certificate of {name} was revoked: {again}")
        days = LIFETIME_S / 86_400
        lost = f"was not used for {days:.0f} days, or was in a ledger that is lost"
        raise Refused(Reason.REVOKED, f"the certificate of {name} was revoked, {lost}: {again}")

    def admits(self, name: str) -> bool:
        """Return whether this name has a valid certificate. False: it was revoked, or never joined."""
        return bool(self._entries.get(name, LedgerEntry()).certificates)

    def newer(self, name: str, serial: str, than: str) -> bool:
        order = [each.serial for each in self._entries[name].certificates]
        return serial in order and (than not in order or order.index(serial) > order.index(than))

    def used(self, name: str, serial: str) -> None:
        """Record a first use, which invalidates older certificates."""
        with self._lock:
            entry = self._entries[name]
            order = [each.serial for each in entry.certificates]
            if serial not in order:
                return
            certificates = entry.certificates[order.index(serial) :]
            if certificates != entry.certificates:
                self._keep(name, replace(entry, certificates=certificates))

    def _good(self, name: str, secret: str) -> Token:
        digest = _digest(secret)
        owner, token = next(
            ((owner, each) for owner, entry in self._entries.items() for each in entry.tokens if each.digest == digest),
            (None, None),
        )
        again = f"`bicast enroll {name}` makes a new one"
        if token is None:
            raise Refused(Reason.TOKEN_UNKNOWN, f"the token is unknown: {again}")
        if owner != name:
            raise Refused(Reason.TOKEN_OF_ANOTHER, f"the token is for another name, not {name}: {again}")
        if token.used_at is not None:
            raise Refused(Reason.TOKEN_USED, f"the token was already used; if that was not you, revoke {name}: {again}")
        if self._clock() >= token.until:
            raise Refused(Reason.TOKEN_OLD, f"the token has expired, it was valid for 15 minutes: {again}")
        return token

    def _keep(self, name: str, entry: LedgerEntry) -> None:
        entries = {**self._entries, name: entry}
        if entry == LedgerEntry():
            del entries[name]
        replace_file(self._path, written_entries(entries))
        self._saved = True
        self._put(entries)

    def _put(self, entries: Entries) -> None:
        before, self._entries = self.vouched(), entries
        if self.vouched() != before:
            self._tell(self.vouched())


def _older(entry: LedgerEntry, seconds: float) -> LedgerEntry:
    older = (replace(each, age_s=each.age_s + seconds) for each in entry.certificates)
    kept = tuple(each for each in older if each.age_s < LIFETIME_S)
    ended = entry.certificates and not kept
    return replace(
        entry, certificates=kept, tokens=tuple(each for each in entry.tokens if not (ended and each.used_at))
    )


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise Refused(
            Reason.NAME,
            f"{name[:80]!r} is not a valid name for an agent: expected at most 63 letters a-z, digits and '-', "
            "not starting with '-'",
        )
    if name == EVERYBODY:
        raise Refused(Reason.NAME, f"{name!r} is not a valid name for an agent: it means all terminals")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _load(path: Path, new: bool) -> Entries:
    text = read_file(path)
    if text is None:
        if new:
            replace_file(path, written_entries({}))
        else:
            log.warning(
                "%s is missing, but its CA exists: no agent that joined before is admitted; restore "
                "the file and restart the controller, or let each agent join again (`bicast enroll NAME`)",
                path,
            )
        return {}
    try:
        entries = read_entries(path, text)
    except ConfigError as error:
        raise AgencyError(
            f"{error}; this is the ledger of agents: restore it, or move it away to start over; then "
            "all agents must join again"
        ) from None
    if new and any(entry.certificates for entry in entries.values()):
        log.warning(
            "%s lists agents, but the CA that signed their certificates (ca.pem beside it) is missing: a new "
            "CA was made, and none of them is admitted; restore ca.pem and restart the controller, or let each "
            "agent join again (`bicast enroll NAME`)",
            path,
        )
    return entries
