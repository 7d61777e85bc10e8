# SPDX-License-Identifier: Apache-2.0
"""The paper's gateway in another mode, installed from rendered files without a controller."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from lab.processes.controller import TREE
from lab.stage import ovs
from lab.stage.command import run
from topologies.paper import BRIDGE


def install(mode: str) -> None:
    with TemporaryDirectory() as place:
        file = Path(place, "gateway.yaml")
        file.write_text((TREE / "topologies/paper.yaml").read_text().replace("mode: bicast", f'mode: "{mode}"'))
        run(str(TREE / "bicast"), "render", "--into", place, str(file))
        run(str(TREE / "ovs-flows/load.sh"), BRIDGE, f"{place}/gateway")
    ovs.await_caches()
