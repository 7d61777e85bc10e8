# SPDX-License-Identifier: Apache-2.0
"""Run the conversation and capture it on three machines."""

from __future__ import annotations

import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.capture.plan import (
    AFTER,
    BEFORE,
    DIRECTORY,
    FILE,
    LTE_ENDPOINT,
    PLACES,
    PORT,
    WIFI_ENDPOINT,
    WORDS,
    Switcher,
)
from lab.processes.agents import SETTINGS, TERMINAL, agent
from lab.processes.capture import captured
from lab.processes.controller import OPENFLOW, TREE, controlled, pin_mode
from lab.stage import command
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised
from topologies.paper import SERVER, PaperTopo

# TCP segments, read by tshark

FIELDS = (
    "ip.src", "tcp.srcport", "ip.dst", "tcp.dstport", "tcp.seq_raw", "tcp.seq", "tcp.ack", "tcp.len", "tcp.flags.push",
    "tcp.flags.syn", "tcp.flags.fin",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Segment:
    source: str
    source_port: int
    destination: str
    destination_port: int
    raw_sequence: int  # on the wire
    sequence: int  # to the connection's first
    acknowledged: int
    payload_bytes: int
    push: bool
    ends: bool  # opens or closes the connection

    @property
    def identity(self) -> tuple[object, ...]:
        ports = (self.source_port, self.destination_port)
        return (self.source, self.destination, *ports, self.raw_sequence, self.payload_bytes)

    @property
    def next_sequence(self) -> int:
        return self.sequence + self.payload_bytes

    def __str__(self) -> str:
        """Format like tcpdump and the paper."""
        flags = "P." if self.push else "."
        sequence = f" seq {self.sequence}:{self.next_sequence}," if self.payload_bytes else ""
        return f"{self.source} > {self.destination}: Flags [{flags}],{sequence} ack {self.acknowledged}"


def read_segments(pcap: Path) -> list[Segment]:
    fields = [word for field in FIELDS for word in ("-e", field)]
    told = command.run("tshark", "-n", "-r", str(pcap), "-Y", "tcp", "-T", "fields", *fields, where=str(pcap)).stdout
    return [_segment(line.split("\t")) for line in told.splitlines()]


def _segment(words: list[str]) -> Segment:
    source, source_port, destination, destination_port, *numbers, push, syn, fin = words
    raw_sequence, sequence, acknowledged, payload_bytes = (int(number or 0) for number in numbers)
    ends = "1" in _flag_values(syn, fin)
    return Segment(
        source, int(source_port), destination, int(destination_port), raw_sequence, sequence, acknowledged,
        payload_bytes, "1" in _flag_values(push), ends,
    )  # fmt: skip


def _flag_values(*words: str) -> set[str]:
    """tshark 3 writes 1 for a set flag, tshark 4 True."""
    return {"1" if word in ("1", "True") else "0" for word in words}


@dataclass(frozen=True, slots=True)
class Conversation:
    """The segments by machine; the router has a port per uplink.

    `words` were exchanged before the switch, and as many after.
    """

    words: int
    client: Sequence[Segment]
    router_wifi: Sequence[Segment]
    router_lte: Sequence[Segment]
    server: Sequence[Segment]

    @property
    def answers(self) -> list[Segment]:
        return [each for each in self.client if _answer(each)]

    @property
    def expected(self) -> list[str]:
        return [BEFORE] * self.words + [AFTER] * self.words

    def words_seen(self) -> list[Segment]:
        return [each for each in self.client if _word(each)]

    @property
    def shown(self) -> tuple[int, int]:
        """Return the numbers of two exchanges: one before the switch, one after."""
        return (self.words - 2, 2 * self.words - 2)

    def exchange(self, seen: Sequence[Segment], number: int) -> list[Segment]:
        """Return a word, its answers and acknowledgements, in the order of `seen`."""
        words, answers = self.words_seen(), self.answers
        if number >= min(len(words), len(answers)):
            return []
        word, answer = words[number], answers[number]
        return [
            each
            for each in seen
            if each.identity in (word.identity, answer.identity) or acknowledges(each, answer)
        ]  # fmt: skip


def _answer(segment: Segment) -> bool:
    return segment.destination == SERVER and segment.payload_bytes > 0


def _word(segment: Segment) -> bool:
    return segment.source == SERVER and segment.payload_bytes > 0


def acknowledges(segment: Segment, answer: Segment) -> bool:
    back = (segment.source, segment.source_port, segment.destination, segment.destination_port)
    there = (answer.destination, answer.destination_port, answer.source, answer.source_port)
    nothing_else = segment.payload_bytes == 0 and not segment.ends
    return back == there and nothing_else and segment.acknowledged == answer.next_sequence


TALK = Path(__file__).with_name("talk.py")
WITHIN_S = 20.0
SNAPPED_BYTES = 256


def carry_out(switcher: Switcher) -> Conversation:
    """Run the conversation in the paper's laboratory; an agent on this machine switches."""
    topology = PaperTopo(lte_backup=switcher.lte_backup)
    with controlled(FILE, SETTINGS) as controller, raised(topology, controller=OPENFLOW) as net:
        controller.await_steady()
        pin_mode(controller.client, "bicast")
        with agent(controller, net.machine(switcher.machine), switcher.machine, switcher.role) as one:

            def begin(_client: Machine) -> None:
                if not switcher.lte_backup:
                    one.await_seeing()
                    controller.client.set_active(TERMINAL, "wifi")

            return observe(net, DIRECTORY / f"by-{switcher.machine}", _by_controller, begin)


def _by_controller(_client: Machine) -> None:
    command.run(str(TREE / "bicast"), "switch", TERMINAL, "lte")


def by_endpoints(client: Machine) -> None:
    client.run("ip", "mptcp", "endpoint", "change", "id", LTE_ENDPOINT, "nobackup")
    client.run("ip", "mptcp", "endpoint", "change", "id", WIFI_ENDPOINT, "backup")


def observe(
    net: Stage,
    directory: Path,
    switch: Callable[[Machine], None],
    begin: Callable[[Machine], None] = lambda _: None,
) -> Conversation:
    """Run the conversation without loss and save captures in `directory`.

    `begin` makes LTE the backup, if it is not; `switch` moves the conversation from Wi-Fi to LTE.
    """
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
            talk.say(1)  # MPTCP opens no second subflow before the first data is acknowledged (RFC 8684, 3.2)
            begin(client)
            _await_subflows(server, backup=AFTER)
            talk.say(WORDS - 1)
            switch(client)
            _await_subflows(server, backup=BEFORE)
            talk.say(WORDS)
    return Conversation(WORDS, *(read_segments(file) for file in files.values()))


class _Talk:
    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read_output, daemon=True).start()

    def say(self, words: int) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(f"{words}\n")
        self._server.stdin.flush()
        self.await_word("done")

    def await_word(self, word: str) -> None:
        try:
            output = self._lines.get(timeout=WITHIN_S)
        except queue.Empty:
            raise ExperimentFailed(f"server: talk.py did not print {word!r} within {WITHIN_S:.0f} s") from None
        if output != word:
            raise ExperimentFailed(f"server: talk.py printed {output!r}, expected {word!r}")

    def _read_output(self) -> None:
        assert self._server.stdout is not None
        for line in self._server.stdout:
            self._lines.put(line.strip())
        self._lines.put("")


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
    """Wait until both subflows exist and either end has flagged only this one as backup."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        told = server.run("ss", "-Htin", "state", "established", "sport", "=", f":{PORT}").stdout
        rows = re.findall(r"\s(192\.168\.\d+\.3):\d+\s*\n.* tcp-ulp-mptcp flags:(\S+)", told)
        if {peer: "B" in flags.upper() for peer, flags in rows} == {BEFORE: backup == BEFORE, AFTER: backup == AFTER}:
            return
    raise ExperimentFailed(
        f"server: expected two subflows with only {backup} as backup within {WITHIN_S:.0f} s, found: {told}"
    )
