# SPDX-License-Identifier: Apache-2.0
"""Sessions of browsers. `bicast page` prints a link with a code, and the page exchanges the code for a session.

A session has two secrets, and only both together authenticate: a cookie, which no script reads, and a key in the page's
storage. Browsers send cookies to every port of a host, so a server of another local user could receive the cookie. They
send the key nowhere by themselves.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import TypeVar

from controller.edges.config.document import Node
from controller.edges.state import files
from controller.model.config import ConfigError

log = logging.getLogger(__name__)

COOKIE = "bicast-session"
KEY = "x-bicast-key"  # header
CODE_VALID_S = 300
SESSION_VALID_S = 30 * 86400
MOST_CODES = 16  # beyond, the oldest expires
MOST_SESSIONS = 64
VERSION = 1

T = TypeVar("T")


class Access(StrEnum):
    READ = "read"
    OPERATE = "operate"


ACCESSES = {str(each): each for each in Access}


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in browser. Times are Unix seconds."""

    number: int
    access: Access
    opened_by: str  # the requester of its code
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of an authenticated request."""

    name: str
    access: Access
    session: Session | None = None  # None: it sent a token


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets of one session, which exist nowhere else: the file holds their hash."""

    cookie: str
    key: str

    @property
    def digest(self) -> str:
        return sha256(f"{self.cookie} {self.key}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Code:
    access: Access
    opened_by: str
    until: float


class Sessions:
    """Any thread may call it. `now` is in Unix seconds, since sessions survive a restart."""

    def __init__(self, path: Path | None = None) -> None:
        """Read the sessions of an earlier run. Without a path, they end with this process."""
        self._path = path
        self._lock = threading.Lock()
        self._codes: dict[str, _Code] = {}
        self._sessions = {} if path is None else _read(path)  # by digest, the oldest first

    def code(self, access: Access, opened_by: str, now: float) -> str:
        """Return a code that opens one session."""
        with self._lock:
            self._codes = _newest({code: each for code, each in self._codes.items() if now < each.until}, MOST_CODES)
            code = secrets.token_urlsafe(32)
            self._codes[code] = _Code(access, opened_by, now + CODE_VALID_S)
            return code

    def open(self, code: str, now: float) -> tuple[Session, Secrets] | None:
        """Return a new session, or None if the code is unknown, used or expired."""
        with self._lock:
            granted = self._codes.pop(code, None)
            if granted is None or now >= granted.until:
                return None
            number = max((each.number for each in self._sessions.values()), default=0) + 1
            session = Session(number, granted.access, granted.opened_by, now, now + SESSION_VALID_S)
            own = Secrets(secrets.token_urlsafe(32), secrets.token_urlsafe(32))
            there = {digest: each for digest, each in self._sessions.items() if now < each.until}
            self._keep({**_newest(there, MOST_SESSIONS), own.digest: session})
            return session, own

    def find(self, headers: Mapping[str, str], now: float) -> Session | None:
        """Return the session of a request."""
        cookie, key = _cookie(headers.get("cookie", "")), headers.get(KEY)
        if cookie is None or key is None:
            return None
        session = self._sessions.get(Secrets(cookie, key).digest)
        return session if session is not None and now < session.until else None

    def close(self, matches: Callable[[Session], bool]) -> int:
        """Close the matching sessions and return their count."""
        with self._lock:
            left = {digest: each for digest, each in self._sessions.items() if not matches(each)}
            closed = len(self._sessions) - len(left)
            if closed:
                self._keep(left)
            return closed

    def list(self, now: float) -> tuple[Session, ...]:
        return tuple(each for each in self._sessions.values() if now < each.until)

    def _keep(self, sessions: dict[str, Session]) -> None:
        self._sessions = sessions  # replaced whole: find() reads it without the lock
        if self._path is None:
            return
        content = {"version": VERSION, "sessions": [{"digest": key, **asdict(each)} for key, each in sessions.items()]}
        try:
            files.replace(self._path, json.dumps(content, indent=1).encode())
        except OSError as error:
            log.error(
                "%s cannot be written (%s), so browsers must sign in again after a restart: %s",
                *(self._path, error.strerror, files.remedy(error)),
            )


def _newest(entries: dict[str, T], most: int) -> dict[str, T]:
    """Return all but the oldest, so that one more fits."""
    return dict(list(entries.items())[-(most - 1) :])


def _cookie(header: str) -> str | None:
    try:
        morsel = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return None
    return morsel.value if morsel is not None else None


def _read(path: Path) -> dict[str, Session]:
    """Return the sessions in a file. An unusable file only means that browsers sign in again."""
    try:
        place = files.document(path, files.read(path))
        files.version(place, VERSION)
        keys = place.mapping(required=("version", "sessions"))
        return dict(_session(each) for each in keys["sessions"].each(MOST_SESSIONS, "sessions"))
    except FileNotFoundError:
        return {}
    except (OSError, ConfigError) as error:
        log.warning("no browser stays signed in, because %s cannot be used: %s", path, error)
        return {}


def _session(place: Node) -> tuple[str, Session]:
    keys = place.mapping(required=("digest", "number", "access", "opened_by", "since", "until"))
    return keys["digest"].text(), Session(
        number=files.count(keys["number"]),
        access=keys["access"].choice(ACCESSES),
        opened_by=keys["opened_by"].text(),
        since=files.moment(keys["since"]),
        until=files.moment(keys["until"]),
    )
