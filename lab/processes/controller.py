# SPDX-License-Identifier: Apache-2.0
"""Run a controller in this world, and pin a mode."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from controller.edges.config.settings import DEFAULT_API
from controller.edges.http import token
from controller.edges.http.client import Client, NoAnswer
from controller.model.settings import Endpoint
from lab.stage.isolate import RUN_DIRECTORY, place
from lab.stage.watch import WatchedProcess

TREE = Path(__file__).resolve().parents[2]
OPENFLOW_ADDRESS = Endpoint("127.0.0.1", 6653)  # plain TCP: a world is private
OPENFLOW = f"tcp:{OPENFLOW_ADDRESS}"
API = f"http://{DEFAULT_API}"
STOP_TIMEOUT_S = 60.0  # usually 0.2 s; far longer under load
CONTROLLER_SECTION = re.compile(r"^controller:.*\n(?:[ #].*\n|\n)*", re.MULTILINE)
LOOK_EVERY_S = 0.02  # the API has no event to wait for


class ControllerFailed(Exception):
    """Report a controller that ended or was too slow, with its last log lines."""


class Controller:
    """A controller that runs on a copy of `file` in `directory`; `settings` replace the file's own.

    `program` runs it instead of this interpreter, and knows where the copy is.
    """

    PATIENCE_S = 60.0  # usually 2 s to the first answer; far longer under load

    def __init__(
        self,
        file: Path,
        settings: str = "",
        listeners: tuple[int, ...] = (),
        *,
        directory: Path,
        program: Sequence[str] = (),
    ) -> None:
        if "openflow:" not in settings:
            settings += f", openflow: {{listen: {OPENFLOW_ADDRESS}}}"
        if listeners:  # the API socket's owner made the token too
            settings += f", api: {{token_file: {token.path_of(DEFAULT_API.port)}}}"
        self.file = directory / file.name
        self.file.write_text(
            f"controller: {{state: {directory / 'state.json'}{settings}}}\n"
            + CONTROLLER_SECTION.sub("", file.read_text(encoding="utf-8"))
        )
        self.client = Client(API)
        self._listeners = listeners
        self._program = program or (sys.executable, "-m", "controller", str(self.file))
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._log: list[str] = []
        self._end_expected = False

    def start(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LISTEN_")}
        if self._listeners:
            environment["LISTEN_FDS"] = str(len(self._listeners))
        self.process = subprocess.Popen(
            self._program,
            cwd=TREE,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            close_fds=False,
            preexec_fn=lambda: place(self._listeners),
            process_group=0,  # only our own process gets Ctrl-C; it stops the controller
        )
        self._end_expected = False
        self._lines = queue.SimpleQueue()  # the previous process's end does not count
        self._log_reader = threading.Thread(target=self._read_log, args=(self.process, self._lines), daemon=True)
        self._log_reader.start()
        self._await_gateways(lambda _: True, "the API answers", LOOK_EVERY_S)

    def stop(self) -> int:
        self._end_expected = True
        self.process.terminate()
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ControllerFailed(
                f"the controller did not stop within {STOP_TIMEOUT_S} s; {self._last_lines()}"
            ) from None

    def kill(self) -> None:
        self._end_expected = True
        self.process.kill()
        self.process.wait()

    def await_word(self, word: str) -> None:
        """Wait for a log line that contains `word`, after the lines of earlier calls."""
        deadline = time.monotonic() + self.PATIENCE_S
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise ControllerFailed(
                    f"the controller did not log {word!r} within {self.PATIENCE_S} s; {self._last_lines()}"
                ) from None
            if line is None:
                raise self._exit_error()
            if word in line:
                return

    def await_state(
        self, state: str, *gateways: str, after: float = 0.0, every_s: float = LOOK_EVERY_S
    ) -> dict[str, float]:
        """Return when (Unix seconds) these gateways (default: all) reached the state, after `after`."""

        def reached(found: dict[str, Any]) -> bool:
            those = [found[name] for name in gateways or found]
            return all(one["state"] == state and one["since"] > after for one in those)

        which = " and ".join(gateways) or "every gateway"
        found = self._await_gateways(reached, f"{which} is {state}", every_s)
        return {name: found[name]["since"] for name in gateways or found}

    def await_steady(self, *gateways: str) -> None:
        self.await_state("steady", *gateways)

    def raise_if_ended(self) -> None:
        if self.process.poll() is not None and not self._end_expected:
            raise self._exit_error()

    def needed(self) -> WatchedProcess:
        return WatchedProcess("controller", self.process.pid, self._complete_log)

    def _complete_log(self) -> str:
        """Return the whole log of a dead controller, whose last lines may still be in the pipe."""
        self._log_reader.join()
        return self.log_text()

    def log_text(self) -> str:
        return "".join(self._log)

    def _await_gateways(self, predicate: Callable[[dict[str, Any]], bool], what: str, every_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + self.PATIENCE_S
        while True:
            found = self._gateways()
            if found is not None and predicate(found):
                return found
            if self.process.poll() is not None:
                raise self._exit_error()
            if time.monotonic() > deadline:
                states = {name: one["state"] for name, one in found.items()} if found is not None else "no answer"
                raise ControllerFailed(
                    f"expected that {what} within {self.PATIENCE_S} s ({states}); {self._last_lines()}"
                )
            time.sleep(every_s)

    def _gateways(self) -> dict[str, Any] | None:
        """Return the status of the gateways by name, or None while the controller does not answer."""
        try:
            return {one["name"]: one for one in self.client.get("status")["gateways"]}
        except NoAnswer:
            return None

    def _exit_error(self) -> ControllerFailed:
        return ControllerFailed(f"the controller ended with {self.process.wait()}; {self._last_lines()}")

    def _last_lines(self) -> str:
        return "its last log lines: " + ("".join(self._log[-5:]).strip() or "none")

    def _read_log(self, process: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self._log.append(line)
            lines.put(line)
        lines.put(None)


@contextmanager
def controlled(
    file: Path,
    settings: str = "",
    listeners: tuple[int, ...] = (),
    *,
    directory: Path | None = None,
    program: Sequence[str] = (),
) -> Iterator[Controller]:
    """Run a controller until the block ends; without a `directory` it starts with no saved state and leaves none."""
    with ExitStack() as stack:
        if directory is None:
            fresh = tempfile.TemporaryDirectory(prefix="controller-", dir=RUN_DIRECTORY)
            directory = Path(stack.enter_context(fresh))
        controller = Controller(file, settings, listeners, directory=directory, program=program)
        controller.start()
        try:
            yield controller
            controller.raise_if_ended()
        finally:
            controller.stop()


# A fixed mode, installed before a measurement

MODE_TIMEOUT_S = 10.0


def pin_mode(client: Client, mode: str) -> None:
    client.set_mode("all", mode)
    deadline = time.monotonic() + MODE_TIMEOUT_S
    while True:
        status = client.get("status")
        states = {one["name"]: one["state"] for one in status["gateways"]}
        modes = {one["mode"] for one in status["terminals"]}
        if modes == {mode} and set(states.values()) == {"steady"}:
            return
        if time.monotonic() > deadline:
            raise ControllerFailed(
                f"mode {mode} was set {MODE_TIMEOUT_S:.0f} s ago and is not in force: modes {sorted(modes)}, gateways "
                f"{states}; `bicast status` shows why"
            )
