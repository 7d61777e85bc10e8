# SPDX-License-Identifier: Apache-2.0
"""The paper's laboratory with its controller."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.processes.controller import TREE, Controller, controlled
from lab.processes.openflow_spy import Spy, spying
from lab.stage import isolate, ovs
from lab.stage.stage import Stage, raised
from topologies.paper import BRIDGE, PaperTopo

FILE = TREE / "topologies" / "paper.yaml"
BACKOFF_MS = 1001  # a change during a connection (gateway/plan.py)


@dataclass(frozen=True, slots=True)
class Lab:
    net: Stage
    controller: Controller
    spy: Spy


@contextmanager
def lab(topo: PaperTopo, *edits: tuple[str, str]) -> Iterator[Lab]:
    """Run the laboratory until it is steady, with `edits` in the paper's gateway.yaml."""
    text = FILE.read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, f"{FILE} has no {old!r}"
        text = text.replace(old, new)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=isolate.RUN_DIRECTORY) as place, spying() as spy:
        file, kept = Path(place) / "gateway.yaml", Path(place) / "kept"
        file.write_text(text, encoding="utf-8")
        kept.mkdir()
        with raised(topo, controller=spy.address) as net, controlled(file, directory=kept) as controller:
            controller.await_steady()
            ovs.vsctl("set", "Controller", BRIDGE, f"max_backoff={BACKOFF_MS}")
            yield Lab(net, controller, spy)
