# SPDX-License-Identifier: Apache-2.0
"""The life of the packages: installed, started, upgraded and downgraded under a call, removed, purged."""

from __future__ import annotations

import pytest

from tests.packages.gateway import FILE, GatewayMachine
from tests.packages.release import NAMES, Release
from tests.system.evidence import until

UNITS = (
    *(f"bicast{each}.service" for each in ("", "-bridge", "-lan")),
    *(f"bicast-agent@{role}.service" for role in ("gateway", "relay")),
)
DEVELOPMENT = ("gcc", "cc", "clang", "go", "ruff", "mypy", "pytest")
MEGABYTE = 1024  # in the unit of Installed-Size
LIMITS_MB = {"bicast-agent": 40, "bicast": 160}  # 200 MB with both


def test_installed_packages_are_small_and_carry_no_compiler(machine: GatewayMachine, current: Release) -> None:
    for name, limit in LIMITS_MB.items():
        size = int(current.field(name, "Installed-Size")) // MEGABYTE
        print(f"{name} is {size} MB installed")
        assert size <= limit
    machine.install(current)
    assert machine.run("bicast", "--version") == machine.run("bicast-agent", "--version") == current.version
    machine.run("systemd-analyze", "verify", "--man=no", *UNITS)
    there = machine.run("sh", "-c", f"for each in {' '.join(DEVELOPMENT)}; do command -v $each; done; true")
    assert there == ""
    with pytest.raises(AssertionError, match="apt-get install bicast-lab"):
        machine.run("bicast", "lab", "--once")


def test_a_gateway_starts_and_a_purge_leaves_nothing(machine: GatewayMachine, current: Release) -> None:
    machine.configure()
    before = machine.files()
    machine.install(current)
    machine.start()
    machine.join("home", "gateway")
    machine.systemd.ctl("enable", "--now", "bicast-agent@gateway")
    machine.await_agent("home", current.version)
    for unit in ("bicast", "bicast-agent@gateway", "ovs-vswitchd", "ovsdb-server"):
        print(f"{unit} has {machine.resident_kb(unit) // 1024} MB resident")
    machine.run("dpkg", "--remove", *reversed(NAMES[:2]))
    assert machine.run("cat", FILE)
    machine.run("dpkg", "--purge", *reversed(NAMES[:2]))
    left, gone = machine.files() - before, before - machine.files()
    assert (left, gone) == (set(), {"./etc/bicast", "./etc/bicast/gateway.yaml"})


def test_an_upgrade_and_a_downgrade_lose_no_datagram(
    machine: GatewayMachine, current: Release, previous: Release
) -> None:
    machine.install(previous)
    machine.start()
    machine.join("home", "gateway")
    machine.systemd.ctl("enable", "--now", "bicast-agent@gateway")
    machine.await_agent("home", previous.version)
    machine.run("sh", "-c", f"echo '# my own' >>{FILE}")
    for release in (current, previous):
        with machine.call() as directions:
            before = machine.systemd.property("bicast", "MainPID")
            machine.install(release)
            until(lambda before=before: machine.systemd.property("bicast", "MainPID") not in (before, "0"), "a restart")
            machine.await_steady()
            machine.await_agent("home", release.version)
            counted = [each.stop() for each in directions]
        for each in counted:
            print(f"{release.version}: {each.sent} sent, {len(each.lost)} lost, {each.duplicates} twice")
            assert each.lost == []
        assert machine.run("bicast", "--version") == release.version
        assert machine.run("tail", "-n1", FILE) == "# my own"


@pytest.mark.parametrize("newer", ["agent", "controller"])
def test_an_agent_one_version_apart_works(
    machine: GatewayMachine, current: Release, previous: Release, newer: str
) -> None:
    controller, agent = (current, previous) if newer == "controller" else (previous, current)
    machine.install(controller)
    machine.start()
    machine.run("dpkg-deb", "--extract", str(machine.copied(agent.file("bicast-agent"))), "/opt/other")
    machine.join("home", "gateway", "/opt/other/usr/bin/bicast-agent")
    machine.run("systemd-run", "--unit=other", "/opt/other/usr/bin/bicast-agent", "run", "--role", "gateway")
    machine.await_agent("home", agent.version)


def test_the_paper_s_laboratory_runs(machine: GatewayMachine, current: Release) -> None:
    machine.install(current, *NAMES)
    print(machine.run("bicast", "lab", "--once"))
