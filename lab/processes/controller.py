# SPDX-License-Identifier: Apache-2.0
"""A controller process in this world, the wait until it has done its work, and a mode that stays fixed."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from controller.edges.config.settings import DEFAULT_API, DEFAULT_OPENFLOW
from controller.edges.http import token
from controller.edges.http.client import Client, NoAnswer
from lab.stage.isolate import RUN_DIRECTORY, place
from lab.stage.watch import Needed

TREE = Path(__file__).resolve().parents[2]
OPENFLOW = f"tcp:{DEFAULT_OPENFLOW}"
API = f"http://{DEFAULT_API}"
STOPS_WITHIN_S = 60.0  # it takes 0.2 s; a machine whose processors are taken needs far longer
THE_FILE_S_OWN = re.compile(r"^controller:.*\n(?:[ #].*\n|\n)*", re.MULTILINE)  # settings
LOOK_EVERY_S = 0.02  # the API has no event to wait for


class ControllerFailed(Exception):
    """It ended, or was not in time where it was waited for; its last lines are in the sentence."""


class Controller:
    """Runs on a copy of `file`, kept in `directory` together with its state; its own settings take the place of the
    file's.

    `python` is the interpreter, and by its environment's packages the framework, that it runs on.
    """

    PATIENCE_S = 60.0  # it answers after 2 s; a machine whose processors are taken needs far longer

    def __init__(
        self,
        file: Path,
        settings: str = "",
        listeners: tuple[int, ...] = (),
        *,
        directory: Path,
        python: str = sys.executable,
    ) -> None:
        if listeners:  # the API's: who bound it made the token, too
            settings += f", api: {{token_file: {token.path_of(DEFAULT_API.port)}}}"
        self.file = directory / file.name
        self.file.write_text(
            f"controller: {{state: {directory / 'state.json'}{settings}}}\n"
            + THE_FILE_S_OWN.sub("", file.read_text(encoding="utf-8"))
        )
        self.client = Client(API)
        self._listeners = listeners
        self._python = python
        self._said: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._heard: list[str] = []
        self._ended_by_us = False

    def start(self) -> None:
        """Returns when it awaits switches and answers questions."""
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
            process_group=0,  # Ctrl-C is for who started it, and who stops it
        )
        self._ended_by_us = False
        self._said = queue.SimpleQueue()  # of this process: the end of the one before it is no news
        self._listener = threading.Thread(target=self._listen, args=(self.process, self._said), daemon=True)
        self._listener.start()
        self._await_gateways(lambda _: True, "it answers for its file", LOOK_EVERY_S)

    def stop(self) -> int:
        self._ended_by_us = True
        self.process.terminate()
        try:
            return self.process.wait(STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ControllerFailed(f"the controller did not stop within {STOPS_WITHIN_S} s; {self._last()}") from None

    def kill(self) -> None:
        self._ended_by_us = True
        self.process.kill()
        self.process.wait()

    def await_word(self, word: str) -> None:
        """Until it has said this to its log since the last time that a word of it was waited for."""
        deadline = time.monotonic() + self.PATIENCE_S
        while True:
            try:
                line = self._said.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise ControllerFailed(
                    f"no {word!r} from the controller within {self.PATIENCE_S} s; {self._last()}"
                ) from None
            if line is None:
                raise self._ended()
            if word in line:
                return

    def await_state(
        self, state: str, *gateways: str, after: float = 0.0, every_s: float = LOOK_EVERY_S
    ) -> dict[str, float]:
        """Until these gateways, or all, are in this state, later than `after`; since when, in Unix seconds."""

        def reached(found: dict[str, Any]) -> bool:
            those = [found[name] for name in gateways or found]
            return all(one["state"] == state and one["since"] > after for one in those)

        which = " and ".join(gateways) or "every gateway"
        found = self._await_gateways(reached, f"{which} is {state}", every_s)
        return {name: found[name]["since"] for name in gateways or found}

    def await_steady(self, *gateways: str) -> None:
        """Until what is installed on these, or all, is what is wanted."""
        self.await_state("steady", *gateways)

    def refuse_sudden_end(self) -> None:
        """Raise where it has ended, and was neither stopped nor killed here."""
        if self.process.poll() is not None and not self._ended_by_us:
            raise self._ended()

    def needed(self) -> Needed:
        """As a process that must live."""
        return Needed("controller", self.process.pid, self._all_heard)

    def _all_heard(self) -> str:
        """When it is dead: its last words may still be on their way."""
        self._listener.join()
        return self.heard()

    def heard(self) -> str:
        return "".join(self._heard)

    def _await_gateways(self, fits: Callable[[dict[str, Any]], bool], what: str, every_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + self.PATIENCE_S
        while True:
            found = self._gateways()
            if found is not None and fits(found):
                return found
            if self.process.poll() is not None:
                raise self._ended()
            if time.monotonic() > deadline:
                states = {name: one["state"] for name, one in found.items()} if found is not None else "no answer"
                raise ControllerFailed(
                    f"it is not so within {self.PATIENCE_S} s that {what} ({states}); {self._last()}"
                )
            time.sleep(every_s)

    def _gateways(self) -> dict[str, Any] | None:
        """None while it does not answer."""
        try:
            return {one["name"]: one for one in self.client.get("status")["gateways"]}
        except NoAnswer:
            return None

    def _ended(self) -> ControllerFailed:
        return ControllerFailed(f"the controller ended with {self.process.wait()}; {self._last()}")

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
    directory: Path | None = None,
    python: str = sys.executable,
) -> Iterator[Controller]:
    """Without a `directory` of the caller's it knows nothing of the wishes of those before it, and leaves none."""
    with ExitStack() as stack:
        if directory is None:
            fresh = tempfile.TemporaryDirectory(prefix="controller-", dir=RUN_DIRECTORY)
            directory = Path(stack.enter_context(fresh))
        controller = Controller(file, settings, listeners, directory=directory, python=python)
        controller.start()
        try:
            yield controller
            controller.refuse_sudden_end()
        finally:
            controller.stop()


# A mode that stays fixed during a measurement: set over the API, and installed before the measurement begins

WITHIN_S = 10.0


def pin_mode(client: Client, mode: str) -> None:
    """All terminals of this controller in this mode; returns when every switch holds what that means."""
    client.set_mode("all", mode)
    deadline = time.monotonic() + WITHIN_S
    while True:
        status = client.get("status")
        states = {one["name"]: one["state"] for one in status["gateways"]}
        modes = {one["mode"] for one in status["terminals"]}
        if modes == {mode} and set(states.values()) == {"steady"}:
            return
        if time.monotonic() > deadline:
            raise ControllerFailed(
                f"mode {mode} is not in force {WITHIN_S:.0f} s after it was wished: modes {sorted(modes)}, gateways "
                f"{states}; see what the controller says of them in its status"
            )
