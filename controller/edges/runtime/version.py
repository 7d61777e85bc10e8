# SPDX-License-Identifier: Apache-2.0
"""The version, from version.txt. `make setup` and the package's build write it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).parents[2] / "version.txt"
VERSION: Final = FILE.read_text(encoding="ascii").strip() if FILE.is_file() else "unreleased"
