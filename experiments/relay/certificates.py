"""Who a relay and a gateway are to each other: certificates of one authority, by openssl as docs/relay.md has it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.stage import command

RELAY, GATEWAY = "tokyo", "home"


@dataclass(frozen=True, slots=True)
class Identity:
    name: str
    certificate: Path
    key: Path
    authority: Path

    @property
    def words(self) -> tuple[str, ...]:
        """As the agent's options."""
        return ("--certificate", str(self.certificate), "--key", str(self.key), "--ca", str(self.authority))

    def joined(self) -> Path:
        """Certificate and key in one file."""
        file = self.certificate.with_suffix(".both")
        file.write_text(self.certificate.read_text() + self.key.read_text())
        return file


def issue(directory: Path) -> tuple[Identity, Identity]:
    """The relay's, and its gateway's."""
    authority, key = directory / "ca.pem", directory / "ca.key"
    _openssl(authority, key, "relays", "basicConstraints=critical,CA:TRUE")
    relay = _leaf(directory, RELAY, "serverAuth")
    gateway = _leaf(directory, GATEWAY, "clientAuth")
    return relay, gateway


def _leaf(directory: Path, name: str, purpose: str) -> Identity:
    one = Identity(name, directory / f"{name}.pem", directory / f"{name}.key", directory / "ca.pem")
    signer = ("-CA", str(one.authority), "-CAkey", str(directory / "ca.key"))
    extensions = ("basicConstraints=critical,CA:FALSE", f"subjectAltName=DNS:{name}", f"extendedKeyUsage={purpose}")
    _openssl(one.certificate, one.key, name, *extensions, signer=signer)
    return one


def _openssl(certificate: Path, key: Path, name: str, *extensions: str, signer: tuple[str, ...] = ()) -> None:
    added = (word for extension in extensions for word in ("-addext", extension))
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "2", "-subj", f"/CN={name}")
    files = ("-keyout", str(key), "-out", str(certificate))
    command.run("openssl", "req", "-x509", "-config", "/dev/null", *signer, *kind, *added, *files)
