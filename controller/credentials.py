"""Files that only root may read, given to a service by systemd (systemd.exec(5), LoadCredential=)."""

from __future__ import annotations

import os
from pathlib import Path


def readable(file: str) -> Path:
    """Return systemd's copy of a file, known by the file's name, or the file itself where systemd gave none."""
    copies = os.environ.get("CREDENTIALS_DIRECTORY")
    if copies is None:
        return Path(file)
    copy = Path(copies, Path(file).name)
    return copy if os.access(copy, os.R_OK) else Path(file)
