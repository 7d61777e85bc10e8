"""Paper 002's tables 3 and 4 (section 3.3): what rides twice, captured at the client, the router and the server.

The server speaks a word at a time, the client answers; in the middle the client's active subflow is switched by
`./bicast switch`: the client's agent sends MP_PRIO. Upstream MPTCP takes that from the client for both directions.
"""

from __future__ import annotations

import argparse
import json
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from experiments.capture.claims import AFTER, BEFORE, Claim, Conversation, claims
from experiments.capture.segments import read as read_segments
from lab.processes.agents import SETTINGS, TERMINAL, agent
from lab.processes.capture import captured
from lab.processes.controller import OPENFLOW, TREE, controlled, pin_mode
from lab.stage import command, isolate
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised
from topologies.paper import SERVER, PaperTopo

DIRECTORY = TREE / "results" / "capture"
FILE = TREE / "topologies" / "paper.yaml"
TALK = Path(__file__).with_name("talk.py")
PORT = 4000
WORDS = 12
WITHIN_S = 20.0
SNAPPED_BYTES = 256
PLACES = {
    "client": ("client", "any"),
    "router-wifi": ("router", "wifi"),
    "router-lte": ("router", "lte"),
    "server": ("server", "lan"),
}
WIFI_ENDPOINT, LTE_ENDPOINT = "1", "2"  # numbered in the topology's order


def run(args: argparse.Namespace) -> int:
    isolate.enter()
    with controlled(FILE, SETTINGS) as controller, raised(PaperTopo(), controller=OPENFLOW) as net:
        controller.await_steady()
        pin_mode(controller.client, "bicast")
        with agent(controller, net.machine("client"), TERMINAL, "terminal"):
            seen = observe(net, DIRECTORY, by_controller)
    found = claims(seen)
    print(json.dumps(document(seen, found), indent=2) if args.json else text(seen, found))
    return 0


def by_controller(_client: Machine) -> None:
    command.run(str(TREE / "bicast"), "switch", TERMINAL, "lte")


def by_endpoints(client: Machine) -> None:
    """The same without an agent, by what iproute2 has."""
    client.run("ip", "mptcp", "endpoint", "change", "id", LTE_ENDPOINT, "nobackup")
    client.run("ip", "mptcp", "endpoint", "change", "id", WIFI_ENDPOINT, "backup")


def observe(net: Stage, directory: Path, switch: Callable[[Machine], None]) -> Conversation:
    """The conversation, with nothing lost; its captures are kept in `directory`. `switch` goes from Wi-Fi to LTE."""
    directory.mkdir(parents=True, exist_ok=True)
    for way in (net.uplink("lte").forward, net.uplink("lte").backward):
        way.set(loss_percent=0)
    client, server = net.machine("client"), net.machine("server")
    files = {name: directory / f"{name}.pcap" for name in PLACES}
    with ExitStack() as captures:
        for name, (machine, device) in PLACES.items():
            options = ("-i", device, "-U", "--immediate-mode")
            captures.enter_context(
                captured(net.machine(machine), files[name], f"tcp port {PORT}", SNAPPED_BYTES, *options)
            )
        with _talking(server, client) as talk:
            talk.say(1)  # before the first data is acknowledged MPTCP opens no second subflow (RFC 8684, 3.2)
            _await_subflows(server, backup=AFTER)
            talk.say(WORDS - 1)
            switch(client)
            _await_subflows(server, backup=BEFORE)
            talk.say(WORDS)
    return Conversation(WORDS, *(read_segments(file) for file in files.values()))


class _Talk:
    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, words: int) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(f"{words}\n")
        self._server.stdin.flush()
        self.await_word("done")

    def await_word(self, word: str) -> None:
        try:
            said = self._said.get(timeout=WITHIN_S)
        except queue.Empty:
            raise ExperimentFailed(f"server: its program has not said {word!r} within {WITHIN_S:.0f} s") from None
        if said != word:
            raise ExperimentFailed(f"server: its program said {said!r} where {word!r} was expected")

    def _listen(self) -> None:
        assert self._server.stdout is not None
        for line in self._server.stdout:
            self._said.put(line.strip())
        self._said.put("")


@contextmanager
def _talking(server: Machine, client: Machine) -> Iterator[_Talk]:
    program = [sys.executable, str(TALK)]
    with server.popen([*program, "serve", SERVER, str(PORT)], stdin=subprocess.PIPE, stderr=None, text=True) as speaker:
        try:
            talk = _Talk(speaker)
            talk.await_word("listening")
            with client.popen([*program, "answer", SERVER, str(PORT)], stderr=None) as listener:
                try:
                    talk.await_word("connected")
                    yield talk
                    assert speaker.stdin is not None
                    speaker.stdin.close()
                    listener.wait(WITHIN_S)
                finally:
                    listener.kill()
        finally:
            speaker.kill()


def _await_subflows(server: Machine, backup: str) -> None:
    """Until both stand and the peer has flagged this one backup, and the other not."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        told = server.run("ss", "-Htin", "state", "established", "sport", "=", f":{PORT}").stdout
        rows = re.findall(r"\s(192\.168\.\d+\.3):\d+\s*\n.* tcp-ulp-mptcp flags:(\S+)", told)
        if {peer: "B" in flags for peer, flags in rows} == {BEFORE: backup == BEFORE, AFTER: backup == AFTER}:
            return
    raise ExperimentFailed(f"server: no two subflows with {backup} alone backup within {WITHIN_S:.0f} s: {told}")


def text(seen: Conversation, found: list[Claim]) -> str:
    before, after = seen.shown
    parts = []
    for number, (name, segments) in enumerate((("server", seen.server), ("client", seen.client)), 3):
        lines = [
            f"What the {name} saw (the paper's table {number}):",
            *map(str, seen.exchange(segments, before)),
            "~ the active subflow is switched ~",
            *map(str, seen.exchange(segments, after)),
        ]
        parts.append("\n".join(lines))
    verdicts = []
    for claim in found:
        verdicts.append(f"{'HOLDS       ' if claim.holds else 'DOES NOT HOLD'}  {claim.sentence}")
        verdicts += [f"               {each}" for each in claim.counter_examples]
    checked = f"Of {len(seen.answers)} client segments (n = {len(seen.answers)}):"
    return "\n\n".join([*parts, "\n".join([checked, *verdicts]), f"The captures: {DIRECTORY}"])


def document(seen: Conversation, found: list[Claim]) -> dict[str, object]:
    return {
        "experiment": "capture",
        "client_segments": len(seen.answers),
        "claims": [
            {"claim": each.sentence, "holds": each.holds, "counter_examples": each.counter_examples} for each in found
        ],
        "tables": {
            name: [[str(each) for each in seen.exchange(segments, number)] for number in seen.shown]
            for name, segments in (("server", seen.server), ("client", seen.client))
        },
        "captures": str(DIRECTORY),
    }
