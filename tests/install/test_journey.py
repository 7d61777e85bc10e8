# SPDX-License-Identifier: Apache-2.0
"""The shortest way of docs/how-to/install.md, typed into two emulated machines. The tests are its parts, in order."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.gateway.init.test_two_machines import SNAPSHOT
from tests.install import device
from tests.install.journey import EVENTS, REMOVE, SHORTEST, WAYS, Journey, endured, shown
from tests.install.machines import booted
from tests.install.network import carried, network

BOX = Path(os.environ["BICAST_INSTALL_BOX"])
INSTALL = tuple(each for each in SHORTEST if each.line.startswith("apt-get install"))
PINGS, POWER_CUTS = 100, 1
LINKS = {"home": ("tn-1", "tn-2"), "far": ("tf-1", "tf-2")}


@dataclass
class Report:
    """The figures of a run, printed at its end."""

    before: dict[str, list[str]] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)

    def say(self, row: str) -> None:
        self.rows.append(row)
        print(f"install-test: {row}", flush=True)


@pytest.fixture(scope="module")
def report() -> Iterator[Report]:
    made = Report()
    yield made
    print("\ninstall-test: emulated processors (QEMU TCG): these figures are for the mechanism, not for real machines")
    print(*(f"install-test: {row}" for row in made.rows), sep="\n", flush=True)


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journey]:
    place = tmp_path_factory.mktemp("machines")
    with network(place) as around, booted(BOX, place) as (home, far):
        made = Journey(home, far, around, place)
        made.copy_packages()
        yield made


def snapshot(journey: Journey, machine: str) -> list[str]:
    devices = "ens10 ens11 ens12 ens13"
    told = journey.machines[machine].run(SNAPSHOT.replace("eth0 enp1s0 wwan0 enp3s0", devices) + "\ntrue")
    return told.splitlines()


def test_a_device_is_served_and_its_packets_ride_both_uplinks(journey: Journey, report: Report) -> None:
    began = time.monotonic()
    journey.type_at_once(INSTALL)
    installed = time.monotonic()
    report.before |= {name: snapshot(journey, name) for name in journey.machines}
    paused = time.monotonic() - installed
    told = journey.type(SHORTEST[len(INSTALL) :])
    assert shown(told, "Shortest way") == []
    lan = re.findall(r"connect your devices to (\S+)", told)
    assert lan == ["ens13"]
    address = device.plugged_in(journey.place)
    journey.await_both_uplinks()
    minutes = (time.monotonic() - began - paused) / 60
    report.say(f"typed lines: {len(journey.lines)} (n = 1)")
    report.say(
        f"from the first apt-get install to {address} whose packets ride both uplinks: {minutes:.1f} min (n = 1)"
    )


def tunnels(journey: Journey) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, links in LINKS.items():
        for link in links:
            (row,) = json.loads(journey.machines[name].run(f"ip -json -statistics link show dev {link}"))
            found |= {f"{link} {way}": row["stats64"][way]["packets"] for way in ("rx", "tx")}
    return found


def test_each_ping_rides_both_uplinks_and_comes_once(journey: Journey, report: Report) -> None:
    before, rode = tunnels(journey), carried()
    assert device.pinged(PINGS) == device.Pings(PINGS, PINGS, 0)
    rode, after = carried() - rode, tunnels(journey)
    through = {name: after[name] - before[name] for name in before}
    assert min(through.values()) >= PINGS, through
    # A probe may be as long as a ping, and nothing else of an encrypted packet shows.
    assert min(rode[way.replace(" ", " ping ")] for way in WAYS) >= PINGS, rode
    report.say(f"pings that rode both uplinks in both directions and came once: {PINGS} (n = {PINGS})")


def test_status_shows_both_sites(journey: Journey) -> None:
    found = json.loads(journey.far.run("bicast status --json"))
    assert {each["name"]: each["state"] for each in found["agents"]} == {"home": "here", "far": "here"}
    assert [uplink["tunnel"]["up"] for gateway in found["gateways"] for uplink in gateway["uplinks"]] == [True] * 4


def test_home_comes_back_after_power_cuts(journey: Journey, report: Report) -> None:
    cuts = []
    for _ in range(POWER_CUTS):
        cuts.append(journey.power_cut()[1])
        journey.await_both_uplinks()
    told = ", ".join(f"{each:.0f}" for each in cuts)
    report.say(f"from power to a device's first ping, its machine's boot included: {told} s (n = {len(cuts)})")
    device.plugged_in(journey.place)


def test_a_call_goes_on_after_each_event(journey: Journey, report: Report) -> None:
    failed = []
    for event in EVENTS:
        found = endured(journey, event)
        report.say(f"call of 50 datagrams a second each way, {event.name}: {found} (n = 1)")
        failed += [] if found.done else [event.name]
    assert failed == []


def test_uninstall_leaves_the_machines_as_they_were(journey: Journey, report: Report) -> None:
    journey.type(REMOVE)
    for name, before in report.before.items():
        now = snapshot(journey, name)
        assert (sorted(set(now) - set(before)), sorted(set(before) - set(now))) == ([], []), name
    report.say(f"typed lines with uninstall: {len(journey.lines)} (n = 1)")
