"""Of those who run the suite together, one who measures is alone."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.setup.place import TREE
from tests.turns import Turns

SOON_S = 20
HOLDS = """
import sys
from pathlib import Path
from tests.turns import Turns
with Turns(Path(sys.argv[1])).taken(alone=sys.argv[2] == "alone"):
    print("taken", flush=True)
    sys.stdin.readline()
"""


class Worker:
    """Another process that wants its turn."""

    def __init__(self, place: Path, how: str) -> None:
        words = [sys.executable, "-c", HOLDS, str(place), how]
        self._process = subprocess.Popen(words, cwd=TREE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.taken = threading.Event()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline() == "taken\n":
            self.taken.set()

    def end(self) -> None:
        self._process.communicate("\n", timeout=SOON_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.mark.parametrize(
    ("first", "second", "waits"), [("beside", "beside", False), ("alone", "beside", True), ("beside", "alone", True)]
)
def test_who_is_alone_keeps_others_waiting(tmp_path: Path, first: str, second: str, waits: bool) -> None:
    one = Worker(tmp_path, first)
    assert one.taken.wait(SOON_S)
    other = Worker(tmp_path, second)
    assert other.taken.wait(1.0 if waits else SOON_S) != waits
    one.end()
    assert other.taken.wait(SOON_S)
    other.end()


def test_who_wants_to_be_alone_is_not_passed_by(tmp_path: Path) -> None:
    one = Worker(tmp_path, "beside")
    assert one.taken.wait(SOON_S)
    measures = Worker(tmp_path, "alone")
    assert not measures.taken.wait(1.0)
    newcomer = Worker(tmp_path, "beside")
    assert not newcomer.taken.wait(1.0)
    one.end()
    assert measures.taken.wait(SOON_S) and not newcomer.taken.is_set()
    measures.end()
    assert newcomer.taken.wait(SOON_S)
    newcomer.end()


def test_who_is_killed_holds_nobody_up(tmp_path: Path) -> None:
    one = Worker(tmp_path, "alone")
    assert one.taken.wait(SOON_S)
    one.kill()
    with Turns(tmp_path).taken(alone=True):
        pass
