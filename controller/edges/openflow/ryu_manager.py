# SPDX-License-Identifier: Apache-2.0
"""The start by Ryu's own program.

    ryu-manager --config-file ryu.conf controller/edges/openflow/ryu_manager.py

ryu.conf names gateway.yaml:

    [bicast]
    file = /etc/bicast/gateway.yaml

ryu-manager patches the standard library for greenlets, and the controller's threads need the unpatched one. So this app
replaces the process by the controller's own start, on Ryu. Other apps cannot run beside it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(TREE))  # ryu-manager knows the path of this file alone
os.environ["BICAST_FRAMEWORK"] = "ryu"

from controller.edges.openflow import framework  # noqa: E402  (the lines above say where it is, and which one)

OPTIONS = framework.options("bicast", file="/etc/bicast/gateway.yaml")


class Start(framework.App):  # type: ignore[misc]  # Ryu is untyped
    def start(self) -> None:
        paths = os.pathsep.join(filter(None, (str(TREE), os.environ.get("PYTHONPATH"))))
        os.execve(
            sys.executable, [sys.executable, "-m", "controller", OPTIONS.file], {**os.environ, "PYTHONPATH": paths}
        )
