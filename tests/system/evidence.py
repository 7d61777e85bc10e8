# SPDX-License-Identifier: Apache-2.0
"""Evidence from the switch and the machines themselves, independent of the controller."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from controller.edges.config.settings import DEFAULT_API
from controller.edges.http.token import found
from lab.processes.controller import API
from lab.processes.slow import SLOWNESS
from lab.stage import ovs
from lab.stage.nodes import Machine

PATIENCE_S = 60.0 * SLOWNESS  # a passing run waits for a few seconds; a busy machine takes far longer
MODIFICATIONS = ("OFPT_FLOW_MOD", "OFPT_GROUP_MOD", "OFPT_METER_MOD")
COUNTED = {
    "tcp": "meta l4proto tcp",
    "udp": "meta l4proto udp",
    "ping": "icmp type {echo-request, echo-reply}",
    "ping6": "icmpv6 type {echo-request, echo-reply}",
}


def until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Poll a condition that no event reports."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {patience_s} s: {what}"
        time.sleep(0.02)


def metrics() -> list[str]:
    """Return the lines that Prometheus would get from this world's controller."""
    bearer = {"Authorization": f"Bearer {found(DEFAULT_API.port)}"}
    with urllib.request.urlopen(urllib.request.Request(f"{API}/metrics", headers=bearer)) as answer:
        return str(answer.read().decode()).splitlines()


class Arrivals:
    """Counts packets into each interface of a machine, by kind of traffic. Names of kinds have no underscore."""

    def __init__(self, machine: Machine, *devices: str, kinds: Mapping[str, str] = COUNTED) -> None:
        self._machine = machine
        self._before: Counter[tuple[str, str]] = Counter()
        counting = [
            f'iifname "{device}" {match} counter name {device}_{kind}'
            for device in devices
            for kind, match in kinds.items()
        ]
        names = [f"counter {device}_{kind} {{}}" for device in devices for kind in kinds]
        chain = "chain seen { type filter hook prerouting priority -400; " + "\n".join(["", *counting, ""]) + "}"
        self._table = f"arrivals_{'_'.join(devices)}".replace("-", "_")
        lines = "\n".join([*names, chain])
        machine.run("nft", "-f", "-", given=f"table inet {self._table} {{\n{lines}\n}}\n")

    def remove(self) -> None:
        self._machine.run("nft", "delete", "table", "inet", self._table)

    def since(self) -> Counter[tuple[str, str]]:
        """Return packets by (interface, kind) since the last call."""
        now = self._now()
        new, self._before = now - self._before, now
        return new

    def _now(self) -> Counter[tuple[str, str]]:
        told = json.loads(self._machine.run("nft", "-j", "list", "counters", "table", "inet", self._table).stdout)
        now: Counter[tuple[str, str]] = Counter()
        for entry in told["nftables"]:
            if counter := entry.get("counter"):
                device, _, kind = counter["name"].rpartition("_")
                now[device, kind] = counter["packets"]
        return now

    def await_count(self, count: int, device: str, kind: str) -> None:
        """Wait until this many packets have come since the last call of `since`."""
        until(lambda: self._now()[device, kind] - self._before[device, kind] >= count, f"{count} {kind} by {device}")


@contextmanager
def arrivals(machine: Machine, *devices: str, kinds: Mapping[str, str] = COUNTED) -> Iterator[Arrivals]:
    counted = Arrivals(machine, *devices, kinds=kinds)
    try:
        yield counted
    finally:
        counted.remove()


@dataclass(frozen=True, slots=True)
class Message:
    kind: str  # OFPT_GROUP_MOD, OFPST_FLOW, ...
    text: str


HEAD = re.compile(r"(OFP\w+)(.*)")


class OpenFlowRecorder:
    """Records every OpenFlow message between a bridge and its controller, as copied by Open vSwitch."""

    def __init__(self, bridge: str) -> None:
        self._heard: list[Message] = []
        self._more = threading.Condition()
        self._process = subprocess.Popen(
            ["ovs-ofctl", "snoop", bridge],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=None,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._more:
                if head := HEAD.match(line):
                    self._heard.append(Message(head[1], head[2]))
                elif self._heard:
                    last = self._heard[-1]
                    self._heard[-1] = Message(last.kind, last.text + "\n" + line.rstrip())
                self._more.notify_all()

    def wait(self, kind: str, word: str = "", since: int = 0, patience_s: float = PATIENCE_S) -> Message:
        """Wait for the first such message from number `since` on and return it."""

        def found() -> Message | None:
            return next((each for each in self._heard[since:] if each.kind == kind and word in each.text), None)

        with self._more:
            self._more.wait_for(lambda: found() is not None, patience_s)
            message = found()
        assert message is not None, f"no {kind} {word} within {patience_s} s; there was {self.kinds(since)}"
        return message

    def number(self) -> int:
        """Return the number of the next message."""
        return len(self._heard)

    def kinds(self, since: int = 0) -> Counter[str]:
        return Counter(each.kind for each in self._heard[since:])

    def modifications(self, since: int = 0) -> dict[str, int]:
        kinds = self.kinds(since)
        return {kind: kinds[kind] for kind in MODIFICATIONS if kinds[kind]}

    def settled(self) -> None:
        """Wait until all messages sent so far are recorded: an echo follows them on the same connection."""
        self.wait("OFPT_ECHO_REPLY", since=self.number())

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


@contextmanager
def snooping(bridge: str) -> Iterator[OpenFlowRecorder]:
    """Record all messages during the block. The bridge must be connected: an echo each second marks the time."""
    snoop = OpenFlowRecorder(bridge)
    try:
        snoop.settled()
        yield snoop
    finally:
        snoop.stop()


def flows(bridge: str) -> list[str]:
    lines = ovs.ofctl("dump-flows", "--no-stats", "--names", bridge).splitlines()
    return sorted(line.strip() for line in lines if "actions=" in line)


def groups(bridge: str) -> list[str]:
    lines = ovs.ofctl("dump-groups", "--names", bridge).splitlines()
    return sorted(line.strip() for line in lines if "group_id=" in line)


def program(bridge: str) -> tuple[list[str], list[str]]:
    return flows(bridge), groups(bridge)


def pings(machine: Machine, source: str, target: str, *options: str, count: int = 3) -> str:
    """Return what ping prints. It sends until it has `count` answers, and beyond `count` only if one is late."""
    patience = ("-w", str(int(PATIENCE_S)))  # without it ping ends 50 ms after the last request
    words = ("ping", "-c", str(count), "-i", "0.05", *patience, "-I", source, *options, target)
    return machine.run(*words, check=False).stdout


def reaches(machine: Machine, source: str, target: str) -> bool:
    """Return whether a single ping is answered within a second."""
    return _pinged_once(machine, source, target, 1)


def assert_reaches(machine: Machine, source: str, target: str) -> None:
    """Assert that a single ping is answered. A busy machine may take longer than a second for it."""
    assert _pinged_once(machine, source, target, int(PATIENCE_S)), f"{machine.name}: {target} from {source}"


def _pinged_once(machine: Machine, source: str, target: str, wait_s: int) -> bool:
    words = ("ping", "-c", "1", "-W", str(wait_s), "-I", source, target)
    return machine.run(*words, check=False).returncode == 0


def gateway(status: Mapping[str, list[dict[str, object]]]) -> dict[str, object]:
    """Return the only gateway."""
    (one,) = status["gateways"]
    return one
