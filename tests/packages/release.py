# SPDX-License-Identifier: Apache-2.0
"""The packages of one version for one distribution."""

from __future__ import annotations

import subprocess
from pathlib import Path

DISTRIBUTIONS = ("debian-12", "debian-13", "ubuntu-24.04")
NAMES = ("bicast-agent", "bicast", "bicast-lab")  # in the order of their dependencies


class Release:
    def __init__(self, directory: Path, distribution: str, architecture: str = "amd64") -> None:
        self._directory, self._distribution, self._architecture = directory, distribution, architecture

    def file(self, name: str) -> Path:
        for place in (self._directory, self._directory / self._distribution):
            for found in place.glob(f"{name}_*_{self._architecture}.deb"):
                return found
        what = f"{name} of {self._distribution} for {self._architecture}"
        raise AssertionError(f"{self._directory} has no {what}: make packages")

    def field(self, name: str, field: str) -> str:
        words = ["dpkg-deb", "--field", self.file(name), field]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    @property
    def version(self) -> str:
        return self.field("bicast", "Version")
