# SPDX-License-Identifier: Apache-2.0
"""The process: its arguments, its locks, and the start and stop of all threads."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from controller.edges.agentlink.server import Agents
from controller.edges.config.load import load
from controller.edges.http import token as api_token
from controller.edges.http.access_control import CannotServe
from controller.edges.http.app import make_app
from controller.edges.http.records import Records
from controller.edges.http.server import Serving, context_of, listeners
from controller.edges.openflow.errors import FrameworkError
from controller.edges.runtime import process
from controller.edges.runtime.recorder import Recorder
from controller.edges.runtime.service import Service
from controller.edges.state import files
from controller.edges.state.store import Store, StoreError
from controller.edges.trust.refusals import AgencyError
from controller.edges.trust.tls import TlsError
from controller.model.config import ConfigError
from controller.model.settings import Settings
from controller.protocol.enrolment import NoAgents
from controller.protocol.orders import AgentEffect
from controller.protocol.switch_messages import Effect

log = logging.getLogger("controller")

STOPS = {signal.SIGINT, signal.SIGTERM}
BROKEN = 70  # EX_SOFTWARE of sysexits.h


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m controller", description="The controller, on one gateway.yaml.", allow_abbrev=False
    )
    parser.add_argument("file", metavar="FILE", help="gateway.yaml; SIGHUP reads it again")
    return run(parser.parse_args().file)


def run(path: str) -> int:
    """Run until SIGTERM or Ctrl-C and return 0. Return 1 if the controller cannot start."""
    process.begin()
    faulthandler.enable()  # a crash in a C extension leaves the threads' tracebacks on stderr
    threading.excepthook = _end_all
    process.spare()
    # Threads inherit the mask, so it is set before any starts: only this thread receives the signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS | {signal.SIGHUP})
    try:
        _serve(path)
    except (
        ConfigError,
        StoreError,
        CannotServe,
        api_token.BadToken,
        files.InUse,
        AgencyError,
        FrameworkError,
        TlsError,
    ) as error:
        print(f"bicast: {error}", file=sys.stderr)
        return 1
    return 0


def _serve(path: str) -> None:
    from controller.edges.openflow.app import Wire  # chooses the framework; raises FrameworkError if none is found

    config = load(path)
    settings = config.settings
    wires: list[Wire] = []

    def perform(effect: Effect | AgentEffect) -> None:
        if not isinstance(effect, AgentEffect):
            wires[0].perform(effect)
        elif agents is not None:
            agents.perform(effect)

    agents: Agents | None = None
    with ExitStack() as stack:
        for lock in _locks(settings):
            stack.enter_context(lock)
        service = Service(path, config, Store(settings.state_file), perform)
        if settings.agents is not None:
            agents = Agents(settings.agents, service.post, service.bind, service.vouch)
        tls = context_of(settings)
        listening = listeners(settings)
        token = stack.enter_context(api_token.of_api(settings.token_file, listening[0].getsockname()[1]))
        reading = (service.snapshot, service.program, service.decisions)
        reader_token = api_token.written(settings.reader_token_file) if settings.reader_token_file else None
        records = Records.beside(settings.state_file)
        recorder = Recorder(service.watched, records.events)
        api = Serving(make_app(*reading, service, token, agents or NoAgents(), records, reader_token), listening, tls)
        stack.callback(api.stop)
        wires.append(Wire(settings.openflow, settings.tls, service.post))
        service.start()
        recorder.start()
        if agents is not None:
            agents.start()
        process.notify("READY=1")
        log.info("listening for switches at %s, API at %s", wires[0].address, api.url)
        while (received := signal.sigwait(STOPS | {signal.SIGHUP})) == signal.SIGHUP:
            service.reload()
        process.notify("STOPPING=1")
        log.info("%s: stopping; installed flows stay on the switches", signal.Signals(received).name)
        wires[0].stop()
        if agents is not None:
            agents.stop()
        recorder.stop()
        service.stop()


def _locks(settings: Settings) -> Iterator[AbstractContextManager[None]]:
    """Yield locks for the files that two controllers would overwrite for each other."""
    state = settings.state_file
    yield files.locked(Path(f"{state}.lock"), f"the state file {state}", "write another path into controller.state")
    if settings.agents is not None:
        directory = settings.agents.directory
        remedy = "write another path into controller.agents.directory"
        yield files.locked(Path(directory, "lock"), f"the agents' directory {directory}", remedy)


def _end_all(args: threading.ExceptHookArgs) -> None:
    """End the process when a thread fails. The supervisor restarts it; switches keep forwarding meanwhile."""
    name = args.thread.name if args.thread else "a thread"
    log.critical("%s failed; the switches keep forwarding", name, exc_info=args.exc_value)
    logging.shutdown()
    os._exit(BROKEN)


if __name__ == "__main__":
    sys.exit(main())
