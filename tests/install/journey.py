# SPDX-License-Identifier: Apache-2.0
"""The journey of docs/how-to/install.md on two machines, and its events."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.install import device
from tests.install.machines import Machine
from tests.install.network import FIBRE, FIRST_HOST, LTE, SECOND_HOST, Network, carried
from tests.install.page import FAR, HOME, INVITATION, Typed, printed, typed
from tests.setup.place import TREE
from tests.system.evidence import until

DEBS = TREE / "build" / "packages"
SETTLED_WITHIN_S = 300.0
STEADY_WITHIN_S = 60.0
STEADY_S = 3  # so many seconds in a row, each with datagrams over both uplinks in both directions
PER_SECOND = 20  # of 50: an emulated machine pauses
WAYS = tuple(f"{uplink} {way}" for uplink in ("fibre", "lte") for way in ("up", "down"))


@dataclass
class Journey:
    home: Machine
    far: Machine
    network: Network
    place: Path
    lines: list[Typed] = field(default_factory=list)
    began: float = 0.0

    @property
    def machines(self) -> dict[str, Machine]:
        return {HOME: self.home, FAR: self.far}

    def copy_packages(self) -> None:
        for each in self.machines.values():
            each.copy(*DEBS.glob("bicast-agent_*_amd64.deb"), *DEBS.glob("debian-12/bicast_*_amd64.deb"))

    def type(self, those: tuple[Typed, ...]) -> str:
        """Type lines in their order, and return the output. A line that waits for the next one runs beside it."""
        self.lines += those
        told, invited, waiting = "", "", None
        for each in those:
            line = each.line.replace(INVITATION, invited) if invited else each.line
            print(f"install-test: {each.machine}# {line}", flush=True)
            if line == "bicast init --far":
                waiting = self.machines[each.machine].popen(line)
                assert waiting.stdout is not None
                for out in waiting.stdout:
                    told += out
                    if out.strip().startswith("bicast init "):
                        invited = out.split()[-1]
                        break
                assert invited, told
            else:
                told += self.machines[each.machine].run(line)
                if waiting and INVITATION in each.line:
                    told += waiting.communicate()[0]
                    assert waiting.returncode == 0, told
        return told

    def type_at_once(self, those: tuple[Typed, ...]) -> None:
        """Type lines at the same time, each on another machine."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.type, [(each,) for each in those]))

    def power_cut(self) -> tuple[float, float]:
        """Cut home's power, boot it, and return the seconds to the first ping from the cut and from the boot."""
        with device.pinging() as pings:
            device.next_answer(pings, time.time())
            cut = time.time()
            self.home.power_off()
            booted = time.time()
            self.home.power_on()
            answered = device.next_answer(pings, booted)
        self.home.await_booted()
        return answered - cut, answered - booted

    def await_both_uplinks(self) -> None:
        """Wait until pings ride both uplinks and come once."""

        def both() -> bool:
            before, found = carried(), device.pinged(5)
            rode = carried() - before
            return found == device.Pings(5, 5, 0) and all(rode[f"{way[0]} ping {way[1]}"] == 5 for way in _ways())

        until(both, "pings ride both uplinks and come once", SETTLED_WITHIN_S)

    def is_call_steady(self) -> bool:
        """Wait until a call rides both uplinks for seconds in a row, and return whether it does."""
        deadline, good = time.monotonic() + STEADY_WITHIN_S, 0
        before = carried()
        while good < STEADY_S:
            if time.monotonic() > deadline:
                return False
            time.sleep(1)  # counters have no event
            now = carried()
            good = good + 1 if _least(now - before) >= PER_SECOND else 0
            before = now
        return True


def _ways() -> tuple[tuple[str, str], ...]:
    return tuple((uplink, way) for uplink in ("fibre", "lte") for way in ("up", "down"))


def _least(rode: Counter[str]) -> int:
    return min(rode[f"{uplink} call {way}"] for uplink, way in _ways())


def shown(told: str, section: str) -> list[str]:
    """Return the lines that the page shows and the machines did not print."""
    lines = [line.strip() for line in told.splitlines()]
    return [
        each
        for each in printed(section)
        if not any(line == each or line.startswith(each.partition("TOKEN")[0]) for line in lines)
    ]


# Events during a call


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    act: Callable[[Journey], object]

    def succeeds(self, journey: Journey) -> bool:
        try:
            self.act(journey)
        except AssertionError as error:  # the other events are tried all the same
            print(f"install-test: {self.name} failed: {error}", flush=True)
            return False
        return True


def _renewed(host: int) -> Callable[[Journey], None]:
    def renew(journey: Journey) -> None:
        address = f"{FIBRE.network}.{host}"
        journey.network.serve(FIBRE, host)
        holds = f"ip -4 address show dev ens11 | grep -q {address}/"
        # A refusal that is lost has the client wait for more than a minute.
        journey.home.run(f"until {holds}; do networkctl renew ens11; sleep 2; done")

    return renew


def _black_fibre(journey: Journey) -> None:
    """Drop all on fibre until the controller has a session with home over LTE."""
    with FIBRE.black():
        journey.far.run(f"until bicast agents | grep -q {LTE.outside}; do sleep 1; done")


def _systemctl(machine: str, words: str) -> Event:
    return Event(f"{machine}: systemctl {words}", lambda journey: journey.machines[machine].run(f"systemctl {words}"))


EVENTS = (
    Event("home: fibre has a new address", _renewed(SECOND_HOST)),
    Event("home: fibre has its first address again", _renewed(FIRST_HOST)),
    Event("fibre is black until home's agent has reached the controller over LTE", _black_fibre),
    _systemctl(FAR, "restart bicast"),
    _systemctl(FAR, "restart bicast-bridge"),
    _systemctl(FAR, "restart bicast-agent@gateway"),
    _systemctl(HOME, "restart bicast-bridge"),
    _systemctl(HOME, "restart bicast-lan"),
    _systemctl(HOME, "kill --signal=HUP bicast-lan"),
    _systemctl(HOME, "restart bicast-agent@gateway"),
    _systemctl(HOME, "restart openvswitch-switch"),
    Event("far: reboots", lambda journey: journey.far.reboot()),
)


@dataclass(frozen=True, slots=True)
class Endured:
    """A call's losses in an event, from its begin until the call rides both uplinks again or is moved for good."""

    name: str
    seconds: float
    done: bool
    stayed: bool  # False: the call went on by home's own NAT, as no tunnel was up for three seconds
    up: str
    down: str

    def __str__(self) -> str:
        found = f"lost from the device {self.up}, to it {self.down}"
        if not self.done:
            return f"{found}; THE EVENT FAILED"
        again = f"on both uplinks again after {self.seconds:.0f} s"
        return f"{found}; {again}" if self.stayed else f"{found}; it goes on by home's own NAT, and pings are {again}"


def endured(journey: Journey, event: Event) -> Endured:
    """Call, have the event happen, and wait until the call or later packets ride both uplinks."""
    print(f"install-test: {event.name}", flush=True)
    with device.call() as call:
        assert journey.is_call_steady()
        begin = time.monotonic()
        done = event.succeeds(journey)
        stayed = done and journey.is_call_steady()
        end = time.monotonic()
        up, down = call.hang_up()
    if not stayed:
        journey.await_both_uplinks()
    seconds = (end if stayed else time.monotonic()) - begin
    return Endured(event.name, seconds, done, stayed, _told(up, begin, end), _told(down, begin, end))


def _told(direction: device.Direction, begin: float, end: float) -> str:
    sent, lost, twice = direction.between(begin, end)
    return f"{lost} of {sent}" + (f", {twice} twice" if twice else "")


SHORTEST, REMOVE = typed("Shortest way"), typed("Remove it")
