# SPDX-License-Identifier: Apache-2.0
"""The invitation of a far site: ADDRESS:PORT/TOKEN.PIN, in one word to type.

The token admits one home, once. The pin is the SHA-256 of the far site's certificate, so that home sends the token to
no other machine.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import b32encode
from dataclasses import dataclass
from ipaddress import ip_address

from controller.model.settings import Endpoint
from gateway.host import HostError

PORT = 8654
TOKEN_BYTES = 20  # 160 random bits, 32 letters without padding
FORM = re.compile(r"(?P<host>[0-9.]{7,15}|\[[0-9A-Fa-f:.]{2,45}\]):(?P<port>[0-9]{1,5})/(?P<token>\S*)\.(?P<pin>\S*)")
TOKEN = re.compile(r"[A-Z2-7]{32}")
PIN = re.compile(r"[A-Z2-7]{52}")
EXPECTED = "expected one such as 203.0.113.9:8654/TOKEN.PIN, as `bicast init --far` prints it on the rented machine"
LONGEST = 200  # characters


@dataclass(frozen=True, slots=True)
class Invitation:
    where: Endpoint
    token: str
    pin: str

    def __str__(self) -> str:
        return f"{self.where}/{self.token}.{self.pin}"

    def fits(self, certificate: bytes) -> bool:
        return hmac.compare_digest(self.pin, pin_of(certificate))


def new_token() -> str:
    return _base32(secrets.token_bytes(TOKEN_BYTES))


def pin_of(certificate: bytes) -> str:
    """Return the pin of a certificate in DER."""
    return _base32(hashlib.sha256(certificate).digest())


def _base32(raw: bytes) -> str:
    return b32encode(raw).decode("ascii").rstrip("=")


def invitation(text: str) -> Invitation:
    """Return the invitation in a text. Letters may be small: people type them."""
    found = FORM.fullmatch(text.strip()) if len(text) <= LONGEST else None
    if found is None:
        raise HostError(f"{text[:LONGEST]!r} is no invitation: {EXPECTED}")
    host, port = found["host"].strip("[]"), int(found["port"])
    token, pin = found["token"].upper(), found["pin"].upper()
    try:
        ip_address(host)
    except ValueError:
        raise HostError(f"{host!r} is no address: {EXPECTED}") from None
    if not 1 <= port <= 65535:
        raise HostError(f"{port} is no port: {EXPECTED}")
    for part, what, form in ((token, "token", TOKEN), (pin, "pin", PIN)):
        if not form.fullmatch(part):
            length = 32 if form is TOKEN else 52
            raise HostError(
                f"the invitation's {what} is incomplete: expected {length} characters of A-Z and 2-7, not {len(part)}; "
                "copy the whole line"
            )
    return Invitation(Endpoint(host, port), token, pin)
