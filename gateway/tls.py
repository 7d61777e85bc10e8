"""Certificates for a controller and its switches, made once by openssl and never written over.

                         ca.pem   (tls.ca)
            signed by its key, ca-signing.key
              ┌────────────────┴────────────────┐
    tls.certificate, tls.key          switch.pem, switch.key
      the controller's                  a host's Open vSwitch's, beside the CA

A certificate says what it is for, so that a switch's stolen key cannot play the controller.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from controller.model import Settings, Tls
from gateway.host import HostError

# Nobody at home renews certificates; doctor says when the end is near.
VALID_DAYS = 3650


@dataclass(frozen=True, slots=True)
class Pair:
    role: str
    certificate: Path
    key: Path

    @property
    def present(self) -> bool:
        return self.certificate.exists() and self.key.exists()

    @property
    def half(self) -> Path | None:
        """The one that stands without the other."""
        if self.present:
            return None
        return next((path for path in (self.certificate, self.key) if path.exists()), None)


@dataclass(frozen=True, slots=True)
class Files:
    ca: Pair  # its key is only where certificates are made
    controller: Pair
    switch: Pair


@dataclass(frozen=True, slots=True)
class Making:
    """A pair and the commands that make it; none: it is there, or not this host's."""

    pair: Pair
    found: str
    commands: tuple[tuple[str, ...], ...] = ()


def files(tls: Tls) -> Files:
    ca = Path(tls.ca).absolute()
    found = Files(
        Pair("CA", ca, ca.with_name(f"{ca.stem}-signing.key")),
        Pair("controller", Path(tls.certificate).absolute(), Path(tls.key).absolute()),
        Pair("switch", ca.with_name("switch.pem"), ca.with_name("switch.key")),
    )
    paths = [path for pair in (found.ca, found.controller, found.switch) for path in (pair.certificate, pair.key)]
    twice = {str(path) for path in paths if paths.count(path) > 1}
    if twice:
        raise HostError(f"tls: {', '.join(sorted(twice))} would be two things at once: give each file its own name")
    return found


def makings(files: Files, settings: Settings) -> tuple[Making, ...]:
    leaves = (files.controller, files.switch)
    for pair in leaves:
        if pair.half:
            other = pair.key if pair.half == pair.certificate else pair.certificate
            raise HostError(f"tls: {pair.half} is there without {other}: bring the other, or move it away")
    if not files.ca.certificate.exists():
        orphan = next((path for pair in leaves for path in (pair.certificate,) if path.exists()), None)
        orphan = orphan or (files.ca.key if files.ca.key.exists() else None)
        if orphan:
            raise HostError(
                f"tls: {orphan} is there without its CA {files.ca.certificate}: bring the CA, or move it away so that "
                "all are made new"
            )
    may_sign = files.ca.key.exists() or not files.ca.certificate.exists()
    return (_ca(files.ca), _controller(files, settings, may_sign), _switch(files, may_sign))


def _ca(pair: Pair) -> Making:
    if pair.certificate.exists():
        return Making(pair, "present")
    extensions = ("basicConstraints=critical,CA:TRUE,pathlen:0", "keyUsage=critical,keyCertSign")
    return Making(pair, "absent", (*_folder(pair), _openssl(pair, extensions, None)))


def _controller(files: Files, settings: Settings, may_sign: bool) -> Making:
    pair = files.controller
    if pair.present:
        return Making(pair, "present")
    if not may_sign:
        return Making(pair, "not on this host")
    hosts = sorted({"127.0.0.1", "::1", settings.openflow.host})
    names = "subjectAltName=" + ",".join(f"IP:{host}" for host in hosts)
    extensions = (*_leaf("serverAuth"), names)
    return Making(pair, "absent", (*_folder(pair), _openssl(pair, extensions, files.ca)))


def _switch(files: Files, may_sign: bool) -> Making:
    pair = files.switch
    if pair.present:
        return Making(pair, "present")
    if not may_sign:
        ca = files.ca.certificate
        raise HostError(
            f"tls: {pair.certificate} is not there, nor is {files.ca.key}, which would sign it: "
            f"carry {pair.certificate.name} and {pair.key.name} here from the host that made {ca.name}"
        )
    return Making(pair, "absent", (*_folder(pair), _openssl(pair, _leaf("clientAuth"), files.ca)))


def _leaf(purpose: str) -> tuple[str, ...]:
    return (
        "basicConstraints=critical,CA:FALSE",
        "keyUsage=critical,digitalSignature",
        f"extendedKeyUsage={purpose}",
        "authorityKeyIdentifier=keyid",
    )


def _folder(pair: Pair) -> tuple[tuple[str, ...], ...]:
    folders = dict.fromkeys(path.parent for path in (pair.certificate, pair.key) if not path.parent.exists())
    return tuple(("install", "-d", "-m", "0700", str(folder)) for folder in folders)


def _openssl(pair: Pair, extensions: tuple[str, ...], ca: Pair | None) -> tuple[str, ...]:
    """openssl itself writes a private key with mode 0600."""
    signer = ("-CA", str(ca.certificate), "-CAkey", str(ca.key)) if ca else ()
    return (
        # the distribution's openssl.cnf would add extensions of its own
        *("openssl", "req", "-x509", "-config", "/dev/null", *signer),
        *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"),
        *("-days", str(VALID_DAYS), "-subj", f"/CN=bicast {pair.role}"),
        *(word for extension in ("subjectKeyIdentifier=hash", *extensions) for word in ("-addext", extension)),
        *("-keyout", str(pair.key), "-out", str(pair.certificate)),
    )
