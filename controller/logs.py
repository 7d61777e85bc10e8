"""What a line of the log begins with: its time, where nobody else writes that beside it. systemd's journal does."""

from __future__ import annotations

import logging
import os
import sys
from typing import TextIO

TIME = "%(asctime)s.%(msecs)03d "
WORDS = "%(levelname)s %(message)s"


def begin() -> None:
    """Times are local, as `status` and `why` show them."""
    form = WORDS if _journal(sys.stderr) else TIME + WORDS
    logging.basicConfig(level=logging.INFO, format=form, datefmt="%Y-%m-%d %H:%M:%S", stream=sys.stderr)


def _journal(stream: TextIO) -> bool:
    """JOURNAL_STREAM of systemd.exec(5) is inherited by processes whose stderr goes elsewhere."""
    there = os.fstat(stream.fileno())
    return os.environ.get("JOURNAL_STREAM") == f"{there.st_dev}:{there.st_ino}"
