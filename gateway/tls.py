# SPDX-License-Identifier: Apache-2.0
"""Certificates for a controller and its switches, made once by openssl and never overwritten.

                         ca.pem   (tls.ca)
            signed by its key, ca-signing.key
              ┌────────────────┴────────────────┐
    tls.certificate, tls.key          switch-1.pem, switch-1.key
      the controller's                  that of the bridge with dpid 1, beside the CA

A certificate names purpose and dpids, so that a switch's stolen key impersonates neither the controller nor another
switch. An Open vSwitch has one for all its bridges: switch-1-2.pem is for two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from controller.model.config import Config, Site
from controller.model.settings import Endpoint, MutualTls, Settings
from gateway.host import HostError
from gateway.ovs import SeenOvs

# Nobody renews certificates at home. `doctor` warns before they expire.
VALID_DAYS = 3650


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    role: str
    certificate: Path
    key: Path
    dpids: tuple[int, ...] = ()  # of a switch

    @property
    def present(self) -> bool:
        return self.certificate.exists() and self.key.exists()

    @property
    def half(self) -> Path | None:
        if self.present:
            return None
        return next((path for path in (self.certificate, self.key) if path.exists()), None)


@dataclass(frozen=True, slots=True)
class Files:
    ca: CertificateFiles  # its key stays on the host that makes certificates
    controller: CertificateFiles
    switch: CertificateFiles
    elsewhere: tuple[CertificateFiles, ...]  # of bridges on other hosts, for people to copy

    @property
    def all(self) -> tuple[CertificateFiles, ...]:
        return (self.ca, self.controller, self.switch, *self.elsewhere)


@dataclass(frozen=True, slots=True)
class Making:
    """A pair and its commands; none: it exists or is another host's."""

    pair: CertificateFiles
    found: str
    commands: tuple[tuple[str, ...], ...] = ()


def files(tls: MutualTls, config: Config, here: Iterable[Site], ovs: SeenOvs | None) -> Files:
    """Return the files of a host with the bridges `here`. Its Open vSwitch may have further bridges of gateway.yaml."""
    ca = Path(tls.ca).absolute()
    there = {bridge.name: bridge.dpid for bridge in ovs.bridges} if ovs else {}
    others = (site for site in config.sites if there.get(site.bridge) == f"{site.dpid:016x}")
    dpids = sorted({site.dpid for site in (*here, *others)})
    found = Files(
        CertificateFiles("CA", ca, ca.with_name(f"{ca.stem}-signing.key")),
        CertificateFiles("controller", Path(tls.certificate).absolute(), Path(tls.key).absolute()),
        _of_switch(ca, dpids),
        tuple(_of_switch(ca, [site.dpid]) for site in config.sites if site.dpid not in dpids),
    )
    paths = [path for pair in found.all for path in (pair.certificate, pair.key)]
    twice = {str(path) for path in paths if paths.count(path) > 1}
    if twice:
        raise HostError(f"tls: {', '.join(sorted(twice))} would have two uses: give each file its own name")
    return found


def _of_switch(ca: Path, dpids: list[int]) -> CertificateFiles:
    name = "-".join(["switch", *(f"{dpid:x}" for dpid in dpids)])
    return CertificateFiles("switch", ca.with_name(f"{name}.pem"), ca.with_name(f"{name}.key"), tuple(dpids))


def makings(files: Files, settings: Settings) -> tuple[Making, ...]:
    leaves = (files.controller, files.switch, *files.elsewhere)
    for pair in leaves:
        if pair.half:
            other = pair.key if pair.half == pair.certificate else pair.certificate
            raise HostError(f"tls: {pair.half} exists without {other}: add the other file, or move this one away")
    if not files.ca.certificate.exists():
        orphan = next((path for pair in leaves for path in (pair.certificate,) if path.exists()), None)
        orphan = orphan or (files.ca.key if files.ca.key.exists() else None)
        if orphan:
            raise HostError(
                f"tls: {orphan} exists without its CA {files.ca.certificate}: restore the CA, or move that file away "
                "so that all are created again"
            )
    may_sign = files.ca.key.exists() or not files.ca.certificate.exists()
    elsewhere = files.elsewhere if may_sign else ()
    switches = (_switch(files, pair, may_sign) for pair in (files.switch, *elsewhere))
    return (_ca(files.ca), _controller(files, settings, may_sign), *switches)


def _ca(pair: CertificateFiles) -> Making:
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
    assert isinstance(settings.openflow, Endpoint), "TLS is of addresses"
    hosts = sorted({"127.0.0.1", "::1", settings.openflow.host})
    names = "subjectAltName=" + ",".join(f"IP:{host}" for host in hosts)
    extensions = (*_leaf("serverAuth"), names)
    return Making(pair, "absent", (*_folder(pair), _openssl(pair, extensions, files.ca)))


def _switch(files: Files, pair: CertificateFiles, may_sign: bool) -> Making:
    if pair.present:
        return Making(pair, "present")
    if not may_sign:
        ca = files.ca.certificate
        raise HostError(
            f"tls: {pair.certificate} is missing, and so is {files.ca.key}, which would sign it: copy "
            f"{pair.certificate.name} and {pair.key.name} here from the host that created {ca.name}"
        )
    names = "subjectAltName=" + ",".join(f"DNS:{dpid:016x}" for dpid in pair.dpids)
    return Making(pair, "absent", (*_folder(pair), _openssl(pair, (*_leaf("clientAuth"), names), files.ca)))


def _leaf(purpose: str) -> tuple[str, ...]:
    return (
        "basicConstraints=critical,CA:FALSE",
        "keyUsage=critical,digitalSignature",
        f"extendedKeyUsage={purpose}",
        "authorityKeyIdentifier=keyid",
    )


def _folder(pair: CertificateFiles) -> tuple[tuple[str, ...], ...]:
    folders = dict.fromkeys(path.parent for path in (pair.certificate, pair.key) if not path.parent.exists())
    return tuple(("install", "-d", "-m", "0700", str(folder)) for folder in folders)


def _openssl(pair: CertificateFiles, extensions: tuple[str, ...], ca: CertificateFiles | None) -> tuple[str, ...]:
    """Return the command for a key. openssl writes it with mode 0600."""
    signer = ("-CA", str(ca.certificate), "-CAkey", str(ca.key)) if ca else ()
    return (
        # the distribution's openssl.cnf would add extensions
        *("openssl", "req", "-x509", "-config", "/dev/null", *signer),
        *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"),
        *("-days", str(VALID_DAYS), "-subj", f"/CN=bicast {pair.role}"),
        *(word for extension in ("subjectKeyIdentifier=hash", *extensions) for word in ("-addext", extension)),
        *("-keyout", str(pair.key), "-out", str(pair.certificate)),
    )
