"""A file that is only ours, replaced whole: who stops us in the midst of it finds the old one or the new one."""

from __future__ import annotations

import os
from pathlib import Path

from controller.agency.refusals import AgencyError


def read(path: Path) -> bytes | None:
    """None: it is not there."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AgencyError(f"{path} cannot be read ({error.strerror}): let the controller's user read it") from None


def replace(path: Path, content: bytes) -> None:
    beside = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise AgencyError(
            f"{path} cannot be written ({error.strerror}): controller.agents.directory must be a directory that the "
            "controller's user may write"
        ) from None
