# SPDX-License-Identifier: Apache-2.0
"""A device of the LAN: busybox's DHCP client, ping, and an end of a call."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.install.network import PING_BYTES, WEB, shell

INSIDE = ("ip", "netns", "exec", "device")
ON_LEASE = """#!/bin/sh
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
ip address replace $ip/$mask dev $interface
ip route replace default via $router
"""
CALL = [sys.executable, str(Path(__file__).with_name("call.py"))]
CALL_PORT = 7500


def plugged_in(place: Path) -> str:
    """Plug the device in, and return the address that it gets."""
    script = place / "on-lease"
    script.write_text(ON_LEASE)
    script.chmod(0o755)
    shell("ip -n device link set eth0 up")
    shell(f"ip netns exec device busybox udhcpc -i eth0 -n -q -t 100 -T 1 -s {script}")
    return str(re.findall(r"inet (\S+)/", shell("ip -n device -4 address show dev eth0"))[0])


@dataclass(frozen=True, slots=True)
class Pings:
    sent: int
    received: int
    duplicates: int


def pinged(count: int) -> Pings:
    words = [*INSIDE, "ping", "-c", str(count), "-i", "0.1", "-W", "10", "-s", str(PING_BYTES), WEB]
    told = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    sent, received = re.findall(r"(\d+) packets transmitted, (\d+) received", told)[0]
    return Pings(int(sent), int(received), told.count("(DUP!)"))


@contextmanager
def pinging() -> Iterator[subprocess.Popen[str]]:
    """Ping five times a second. Each line of an answer begins with its time."""
    words = [*("setpriv", "--pdeathsig", "KILL"), *INSIDE, *("ping", "-n", "-D", "-i", "0.2", WEB)]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def next_answer(process: subprocess.Popen[str], after: float) -> float:
    """Return the time of the first answer after a time (seconds since 1970)."""
    assert process.stdout is not None
    for line in process.stdout:
        match = re.match(r"\[([\d.]+)\] \d+ bytes from", line)
        if match and float(match[1]) > after:
            return float(match[1])
    raise AssertionError("ping ended")


# A call


@dataclass(frozen=True, slots=True)
class Direction:
    sent: tuple[float, ...]  # the time of each datagram
    arrived: tuple[int, ...]

    def between(self, begin: float, end: float) -> tuple[int, int, int]:
        """Return how many were sent in this time, lost, and duplicated."""
        there = [number for number, at in enumerate(self.sent) if begin <= at < end]
        arrivals = [number for number in self.arrived if there and there[0] <= number <= there[-1]]
        return len(there), len(there) - len(set(arrivals)), len(arrivals) - len(set(arrivals))


class Call:
    def __init__(self, device: subprocess.Popen[str], web: subprocess.Popen[str]) -> None:
        self._ends = device, web

    def hang_up(self) -> tuple[Direction, Direction]:
        """Return the directions from the device and to it."""
        for each in self._ends:
            assert each.stdin is not None
            each.stdin.write("\n")
            each.stdin.flush()
        device, web = (json.loads(each.communicate()[0].splitlines()[-1]) for each in self._ends)
        return Direction(tuple(device["sent"]), tuple(web["arrived"])), Direction(
            tuple(web["sent"]), tuple(device["arrived"])
        )


@contextmanager
def call() -> Iterator[Call]:
    """Call from the device to the web. Both ends have heard the other one when this returns."""
    web = _started("web", "answer")
    device = _started("device", "call")
    try:
        for each in (device, web):
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        yield Call(device, web)
    finally:
        for each in (device, web):
            each.kill()
            each.wait()


def _started(namespace: str, verb: str) -> subprocess.Popen[str]:
    inside = ["setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", namespace]
    return subprocess.Popen(
        [*inside, *CALL, verb, WEB, str(CALL_PORT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
