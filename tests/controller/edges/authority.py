# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from pathlib import Path


class Authority:
    """A certificate authority, made by openssl as people make theirs."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name = directory, name
        self.certificate = str(directory / f"{name}.pem")
        self._key = str(directory / f"{name}.key")
        self._openssl(
            "req", "-x509", "-days", "2", "-subj", f"/CN={name}", "-out", self.certificate, *self._new(self._key)
        )

    def sign(self, name: str, *more: str) -> tuple[str, str]:
        """Return a certificate, valid for further names if given, and its key."""
        base = self._directory / f"{self._name}-{name}"
        certificate, key = f"{base}.pem", f"{base}.key"
        named = ["-addext", "subjectAltName=" + ",".join(f"DNS:{each}" for each in more)] if more else []
        signing = ["-x509", "-CA", self.certificate, "-CAkey", self._key, "-days", "2"]
        self._openssl("req", *signing, "-subj", f"/CN={name}", *named, "-out", certificate, *self._new(key))
        return certificate, key

    @staticmethod
    def _new(key: str) -> list[str]:
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key]

    @staticmethod
    def _openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
