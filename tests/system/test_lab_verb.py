"""`./bicast lab` from its start to its end, with a small file: the comparison, the API outside, and nothing left."""

from __future__ import annotations

import os
import subprocess
import sys

from experiments.running import TREE
from topologies.isolate import MARK

# The verb as people call it, but for the size of the file.
SMALL = (
    "import sys; import cli.lab; cli.lab.SIZE_BYTES = 1_000_000; from cli.__main__ import main; sys.exit(main(['lab']))"
)


def test_the_lab_compares_bicast_off_and_on_and_ends() -> None:
    outside = {name: value for name, value in os.environ.items() if name != MARK}
    done = subprocess.run(
        [sys.executable, "-c", SMALL],
        cwd=TREE,
        env={**outside, "PYTHONPATH": str(TREE), "LAB_ONCE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    here, paper = (line.split() for line in done.stdout.splitlines() if line.lstrip().startswith(("here,", "paper,")))
    assert here[:3] == ["here,", "1", "MB"] and all(float(figure) > 0 for figure in here[3:])
    assert paper[3:] == ["141.4", "61.3", "0.43"]
