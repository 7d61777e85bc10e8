# SPDX-License-Identifier: Apache-2.0
"""A controller on an emulated processor."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from controller.edges.http import client
from controller.edges.http.client import Client, NoAnswer
from lab.processes.controller import API, Controller

SLOWNESS = int(os.environ.get("BICAST_SLOWNESS", "1"))  # setup/vm/inside.sh
client.TIMEOUT_S *= SLOWNESS  # of a request to the controller; each request reads it


class RetryingClient(Client):
    """A client that asks again if the core was too slow to answer and said `try again`."""

    def get(self, *path: str) -> Any:
        for _ in range(SLOWNESS - 1):
            try:
                return super().get(*path)
            except NoAnswer:
                continue
        return super().get(*path)


class SlowController(Controller):
    """A controller with longer timeouts."""

    PATIENCE_S = Controller.PATIENCE_S * SLOWNESS
    started: ClassVar[list[Controller]] = []

    def __init__(self, file: Path, settings: str, *, directory: Path) -> None:
        super().__init__(file, settings, directory=directory)
        self.client = RetryingClient(API)
        self.started.append(self)
