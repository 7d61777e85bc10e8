"""A controller as a process of its own in this world, and the wait for it to have done its work."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controller.client import Client
from topologies.isolate import RUN_DIRECTORY, place

TREE = Path(__file__).resolve().parent.parent
STARTED = "switches are awaited at"
STEADY = "what is installed is what is wanted"
OPENFLOW = "tcp:127.0.0.1:6653"
API = "http://127.0.0.1:8653"
STOPS_WITHIN_S = 10.0


class ControllerFailed(Exception):
    """It ended, or did not say in time what was waited for; its last lines are in the sentence."""


class Controller:
    """Runs on a copy of `file`, kept in `directory` together with its state.

    `python` is the interpreter, and by its environment's packages the framework, that it runs on.
    """

    def __init__(
        self,
        file: Path,
        settings: str = "",
        listeners: tuple[int, ...] = (),
        *,
        directory: Path = RUN_DIRECTORY,
        python: str = sys.executable,
    ) -> None:
        self.file = directory / file.name
        self.file.write_text(
            f"controller: {{state: {directory / 'state.json'}{settings}}}\n" + file.read_text(encoding="utf-8")
        )
        self.client = Client(API)
        self._listeners = listeners
        self._python = python
        self._said: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._heard: list[str] = []

    def start(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LISTEN_")}
        if self._listeners:
            environment["LISTEN_FDS"] = str(len(self._listeners))
        self.process = subprocess.Popen(
            [self._python, "-m", "controller", str(self.file)],
            cwd=TREE,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            close_fds=False,
            preexec_fn=lambda: place(self._listeners),
        )
        self._said = queue.SimpleQueue()  # of this process: the end of the one before it is no news
        threading.Thread(target=self._listen, args=(self.process, self._said), daemon=True).start()
        self.await_word(STARTED)

    def stop(self) -> int:
        self.process.terminate()
        try:
            return self.process.wait(STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ControllerFailed(f"the controller did not stop within {STOPS_WITHIN_S} s; {self._last()}") from None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def await_word(self, word: str, timeout_s: float = 20.0) -> None:
        """Until it has said this since the last time that something was waited for."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                line = self._said.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise ControllerFailed(
                    f"no {word!r} from the controller within {timeout_s} s; {self._last()}"
                ) from None
            if line is None:
                raise ControllerFailed(f"the controller ended with {self.process.wait()}; {self._last()}")
            if word in line:
                return

    def await_steady(self, timeout_s: float = 20.0) -> None:
        self.await_word(STEADY, timeout_s)

    def heard(self) -> str:
        return "".join(self._heard)

    def _last(self) -> str:
        return "its last words: " + ("".join(self._heard[-5:]).strip() or "none")

    def _listen(self, process: subprocess.Popen[str], said: queue.SimpleQueue[str | None]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self._heard.append(line)
            said.put(line)
        said.put(None)


@contextmanager
def controlled(
    file: Path,
    settings: str = "",
    listeners: tuple[int, ...] = (),
    *,
    directory: Path = RUN_DIRECTORY,
    python: str = sys.executable,
) -> Iterator[Controller]:
    controller = Controller(file, settings, listeners, directory=directory, python=python)
    controller.start()
    try:
        yield controller
    finally:
        controller.stop()
