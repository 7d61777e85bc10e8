"""The agency's files: what cannot be read or written is said with the path, the reason and what to do."""

from __future__ import annotations

from pathlib import Path

from controller import kept
from controller.agency.refusals import AgencyError


def read(path: Path) -> bytes | None:
    """None: it is not there."""
    try:
        return kept.read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AgencyError(f"{path} cannot be read ({error.strerror}): {kept.remedy(error)}") from None


def replace(path: Path, content: bytes) -> None:
    try:
        kept.replace(path, content)
    except OSError as error:
        raise AgencyError(
            f"{path} cannot be written ({error.strerror}): {kept.remedy(error)}; controller.agents.directory in "
            "gateway.yaml says where it lies"
        ) from None
