# SPDX-License-Identifier: Apache-2.0
"""The TLS files of gateway.yaml: presence, permissions, matching keys and expiry."""

from __future__ import annotations

import shlex
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

from gateway import tls
from gateway.finding import Finding, State, judged
from gateway.host import HostError, run
from gateway.scene import CheckContext
from gateway.tls import CertificateFiles, Files

SOON_S = 30 * 86400


def certificates(context: CheckContext) -> Iterator[Finding]:
    files = context.files
    if files is None:
        return
    yield from _pair(files, files.ca, None, context)
    for pair, purpose in ((files.controller, "sslserver"), (files.switch, "sslclient")):
        if pair is files.controller and not pair.present and not files.ca.key.exists() and files.switch.present:
            yield Finding("controller certificate", State.OK, "not here", "on the controller's host")
            continue
        yield from _pair(files, pair, purpose, context)


def _pair(files: Files, pair: CertificateFiles, purpose: str | None, context: CheckContext) -> Iterator[Finding]:
    name = f"{pair.role} certificate"
    needed = (pair.certificate,) if purpose is None else (pair.certificate, pair.key)
    gone = [str(path) for path in needed if not path.exists()]
    if gone:
        found, expected = f"{' and '.join(gone)} not there", "all present: `bridge` creates them all, or copy them here"
        line = context.prepare if _makes(files, context) else None
        yield Finding(name, State.BAD, found, expected, line)
        return
    again = _again(files, pair, context)
    if pair.key.exists():
        yield _mode(pair.key)
        right = _public(pair.certificate, "x509") == _public(pair.key, "pkey")
        found = f"{pair.key} {'belongs' if right else 'does not belong'} to {pair.certificate}"
        yield judged(f"{pair.role} key", right, found, "the key of its certificate", again, else_=State.BAD)
    if purpose is not None:
        yield _signed(files.ca, pair, purpose, again)
    yield lifetime(name, pair.certificate, time.time(), again)


def _mode(key: Path) -> Finding:
    mode = key.stat().st_mode & 0o777
    line = f"chmod 0600 {shlex.quote(str(key))}"
    return judged(
        f"mode of {key}", not mode & 0o077, f"{mode:04o}", "0600: readable by its owner only", line, else_=State.BAD
    )


def _signed(ca: CertificateFiles, pair: CertificateFiles, purpose: str, again: str | None) -> Finding:
    command = ("openssl", "verify", "-no_check_time", "-purpose", purpose, "-CAfile", str(ca.certificate))
    try:
        run((*command, str(pair.certificate)))
    except HostError as no:
        found, right = str(no), False
    else:
        found, right = f"signed by {ca.certificate}", True
    expected = f"signed by {ca.certificate} for this use"
    return judged(f"{pair.role} signature", right, found, expected, again, else_=State.BAD)


def lifetime(name: str, certificate: Path, now_s: float, again: str | None) -> Finding:
    lines = run(("openssl", "x509", "-noout", "-dates", "-in", str(certificate))).out.splitlines()
    dates = dict(line.split("=", 1) for line in lines)
    begins_s, ends_s = (ssl.cert_time_to_seconds(dates[end]) for end in ("notBefore", "notAfter"))
    found = f"valid from {dates['notBefore']} to {dates['notAfter']}"
    if now_s < begins_s:
        return Finding(name, State.BAD, found, "valid now: check this host's clock", again)
    if ends_s <= now_s:
        return Finding(name, State.BAD, found, "valid now", again)
    return judged(name, ends_s - now_s > SOON_S, found, "valid for 30 days at least", again, else_=State.WARNING)


def _public(path: Path, kind: str) -> str:
    words = ("-noout", "-pubkey") if kind == "x509" else ("-pubout",)
    return run(("openssl", kind, "-in", str(path), *words)).out


def _makes(files: Files, context: CheckContext) -> bool:
    assert context.config is not None
    try:
        return any(made.commands for made in tls.makings(files, context.config.settings))
    except HostError:
        return False


def _again(files: Files, pair: CertificateFiles, context: CheckContext) -> str | None:
    """Return the commands that move old files away and make new ones. A new CA replaces all certificates."""
    if not files.ca.key.exists():
        return None
    pairs = files.all if pair is files.ca else (pair,)
    paths = [shlex.quote(str(path)) for each in pairs for path in (each.certificate, each.key) if path.exists()]
    return " && ".join([*(f"mv {path} {path}.old" for path in paths), context.prepare])
