# SPDX-License-Identifier: Apache-2.0
"""systemd accepts the units of the service, and the controller starts with the rights that they leave it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.processes.controller import CONTROLLER_SECTION
from tests.controller.edges.authority import Authority
from tests.packages.gateway import GATEWAY
from tests.setup.place import TREE, run
from tests.setup.systemd import Systemd, booted
from tests.system.evidence import until

SITES = CONTROLLER_SECTION.sub("", (TREE / "topologies/paper.yaml").read_text())
NOBODY = 65534
ROLES = ("gateway", "terminal", "relay")
STARTED_WITHIN_S = 60.0  # while other tests run
TOKEN = "0123456789abcdef" * 4
TLS = {"certificate": "controller.pem", "key": "controller.key", "ca": "ca.pem"}
SETTINGS = ("[Unit]", "DefaultDependencies=no", "[Service]", "StandardError=append:{log}")
PORTS = ("wifi", "lte", "lan")


def in_opt(*lines: str) -> list[str]:
    """Return a command that runs these lines with this tree in /opt/bicast, where the units expect it."""
    place = (
        "mount -t tmpfs -o mode=755 none /opt",
        "mkdir /opt/bicast",
        f"mount --bind {shlex.quote(str(TREE))} /opt/bicast",
        "ip link set lo up",
    )
    return ["unshare", "--mount", "--net", "bash", "-ec", "\n".join([*place, *lines])]


def test_systemd_accepts_the_units() -> None:
    units = " ".join(
        f"/opt/bicast/deploy/bicast{kind}" for kind in (".service", ".socket", "-bridge.service", "-lan.service")
    )
    done = run(in_opt(f"systemd-analyze verify --man=no {units}"), os.environ)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "files",
    [
        ["bicast.service"],
        ["bicast-bridge.service"],
        ["bicast-lan.service"],
        *(["bicast-agent@.service", f"bicast-agent@{role}.service.d/rights.conf"] for role in ROLES),
    ],
)
def test_systemd_rates_the_exposure_of_each_service_at_2_5_at_most(files: list[str], tmp_path: Path) -> None:
    unit = tmp_path / "rated.service"
    texts = [(TREE / "deploy" / name).read_text() for name in files]
    unit.write_text(
        "\n".join(texts).replace("/opt/bicast/bicast", "/bin/true").replace("/usr/local/bin/bicast-agent", "/bin/true")
    )
    done = run(["systemd-analyze", "security", "--offline=true", "--threshold=25", unit], os.environ)
    assert done.returncode == 0, done.stdout.splitlines()[-1]


@pytest.mark.parametrize("role", ROLES)
def test_systemd_accepts_the_agent_unit_of_each_role(role: str) -> None:
    """deploy/install-agent.sh installs the role over another one. systemd reads the unit with its drop-in."""
    other = {"gateway": "terminal", "terminal": "relay", "relay": "gateway"}[role]
    place = (
        "for each in /usr/local/bin /etc/systemd/system /var/lib; do mount -t tmpfs none $each; done",
        "mkdir /var/lib/bicast-agent",
        "mount -t tmpfs none /usr/local/sbin",
        'printf "#!/bin/sh\\necho systemctl \\$*\\n" >/usr/local/sbin/systemctl',
        "chmod +x /usr/local/sbin/systemctl",
        f"PATH=/usr/local/sbin:$PATH /opt/bicast/deploy/install-agent.sh {other}",
        f"PATH=/usr/local/sbin:$PATH /opt/bicast/deploy/install-agent.sh {role}",
        "/usr/local/bin/bicast-agent --version >&2",
        f"systemd-analyze verify --man=no bicast-agent@{role}.service",
        "ls -d /etc/systemd/system/bicast-agent@*.d/* | wc -l",
    )
    done = run(in_opt(*place), os.environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == [f"systemctl restart bicast-agent@{role}", "2"]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (in_opt("mount -t tmpfs none /var/lib", "/opt/bicast/deploy/install-agent.sh"), "has joined no controller"),
        ([TREE / "deploy/install.sh", TREE / "topologies/paper.yaml"], "the service runs from /opt/bicast"),
    ],
)
def test_an_agent_without_a_controller_or_a_tree_elsewhere_is_not_installed(command: list[str], why: str) -> None:
    done = run(command, os.environ)
    assert (done.returncode, why in done.stderr) == (78, True), done.stderr


def test_an_invalid_configuration_is_not_installed(tmp_path: Path) -> None:
    bad = tmp_path / "gateway.yaml"
    bad.write_text("sites: 7\n")
    forgotten = "mount -t tmpfs none /etc/systemd/system"
    done = run(in_opt(forgotten, f"/opt/bicast/deploy/install.sh {shlex.quote(str(bad))}"), os.environ)
    assert done.returncode != 0
    assert "sites" in done.stderr
    assert not Path("/etc/bicast/gateway.yaml").exists()


def test_the_service_gets_copies_of_existing_secrets(tmp_path: Path) -> None:
    place = (
        "for each in /etc/systemd/system /usr/local/sbin; do mount -t tmpfs none $each; done",
        "mkdir -p /etc/bicast && mount -t tmpfs none /etc/bicast",
        "cd /usr/local/sbin; printf '#!/bin/sh\\n' | tee systemctl >groupadd; chmod +x systemctl groupadd; cd /",
        "export PATH=/usr/local/sbin:$PATH",
        "install=/opt/bicast/deploy/install.sh",
        "mkdir /etc/bicast/tls && cd /etc/bicast",
        "secrets='tls/controller.pem tls/controller.key tls/ca.pem api-token api-reader-token' && touch $secrets",
        "$install /opt/bicast/topologies/paper.yaml >/dev/null",
        "systemd-analyze verify --man=no bicast.service",
        "cat /etc/systemd/system/bicast.service.d/*.conf | grep ^LoadCredential=",
        "rm $secrets",
        "$install /opt/bicast/topologies/paper.yaml >/dev/null",
        "ls /etc/systemd/system/bicast.service.d",
    )
    done = run(in_opt(*place), os.environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"LoadCredential={Path(file).name}:/etc/bicast/{file}"
        for file in ("api-reader-token", "tls/controller.pem", "tls/controller.key", "tls/ca.pem", "api-token")
    ]


def prepared(log: Path, *settings: str) -> tuple[str, ...]:
    lines = " ".join(shlex.quote(line) for line in (*SETTINGS, *settings)).format(log=log)
    return (
        "mkdir -p /etc/bicast /etc/systemd/system/bicast.service.d",
        "cp /opt/bicast/topologies/paper.yaml /etc/bicast/gateway.yaml",
        "cp /opt/bicast/deploy/bicast.service /etc/systemd/system",
        "ln -s /dev/null /etc/systemd/system/openvswitch-switch.service",
        f'printf "%s\\n" {lines} >/etc/systemd/system/bicast.service.d/test.conf',
    )


def await_start(log: Path, times: int = 1) -> None:
    what = "the controller runs" if times == 1 else "the controller runs again"
    until(lambda: log.exists() and log.read_text().count("listening for switches") == times, what, STARTED_WITHIN_S)


def test_systemd_restarts_a_controller_that_crashes_or_hangs(tmp_path: Path) -> None:
    log = tmp_path / "controller.log"
    with booted(tmp_path, "\n".join(prepared(log, "WatchdogSec=3"))) as systemd:
        systemd.ctl("start", "bicast")
        await_start(log)
        first, ready = (systemd.property("bicast", name) for name in ("MainPID", "WatchdogTimestampMonotonic"))
        until(lambda: systemd.property("bicast", "WatchdogTimestampMonotonic") > ready, "it tells that it is alive")
        assert systemd.property("bicast", "NRestarts") == "0"
        systemd.kill("bicast", signal.SIGSEGV)
        await_start(log, times=2)
        second = systemd.property("bicast", "MainPID")
        systemd.kill("bicast", signal.SIGSTOP)
        await_start(log, times=3)
        assert len({first, second, systemd.property("bicast", "MainPID")}) == 3
    said = log.read_text()
    assert "Fatal Python error: Segmentation fault" in said and "Fatal Python error: Aborted" in said


def test_the_hardened_service_reads_secrets_of_root(tmp_path: Path) -> None:
    """Its group reads the token that it makes itself."""
    log, secrets = tmp_path / "controller.log", tmp_path / "secrets"
    secrets.mkdir()
    authority = Authority(secrets, "ca")
    certificate, key = authority.sign("controller")
    api_certificate, api_key = authority.sign("api", "localhost")
    (secrets / "api-token").write_text(TOKEN)
    tls = {each: f"/etc/bicast/tls/{name}" for each, name in TLS.items()}
    settings = {
        "own": "controller: {}\n",
        "roots": f"controller: {{openflow: {{listen: 127.0.0.1:6653, tls: {json.dumps(tls)}}}, "
        "api: {listen: 0.0.0.0:8653, token_file: /etc/bicast/api-token, "
        "tls: {certificate: /etc/bicast/tls/api.pem, key: /etc/bicast/tls/api.key}}}\n",
    }
    for name, text in settings.items():
        (tmp_path / f"{name}.yaml").write_text(text + SITES)
    conf = "/etc/systemd/system/bicast.service.d"
    prepare = (
        *prepared(log),
        "groupadd --system bicast",
        f"install -D -m 600 {authority.certificate} /etc/bicast/tls/ca.pem",
        f"install -D -m 600 {certificate} /etc/bicast/tls/controller.pem",
        f"install -D -m 600 {key} /etc/bicast/tls/controller.key",
        f"install -m 600 {api_certificate} /etc/bicast/tls/api.pem",
        f"install -m 600 {api_key} /etc/bicast/tls/api.key",
        f"install -m 600 {secrets}/api-token /etc/bicast/api-token",
        f"cp {tmp_path}/*.yaml /etc/bicast && cp /etc/bicast/roots.yaml /etc/bicast/gateway.yaml",
        f"cp /opt/bicast/deploy/bicast-{{tls,token,api-tls}}.conf {conf}",
    )
    with booted(tmp_path, "\n".join(prepare)) as systemd:
        systemd.ctl("start", "bicast")
        await_start(log)
        assert systemd.property("bicast", "DynamicUser") == "yes"
        status = ["/opt/bicast/bicast", "status", "--api", "https://localhost:8653"]
        secured = ["--token-file", "/etc/bicast/api-token", "--ca", "/etc/bicast/tls/ca.pem"]
        assert "no switch of dpid 0000000000000001 is connected" in systemd.run(*status, *secured)
        systemd.run("cp", "/etc/bicast/own.yaml", "/etc/bicast/gateway.yaml")
        systemd.ctl("restart", "bicast")
        await_start(log, times=2)
        made = "/run/bicast-controller/api-8653.token"
        assert systemd.run("stat", "--format=%a %U %G", made) == "640 bicast-controller bicast"
        assert systemd.run("/opt/bicast/bicast", "status")
        assert systemd.run("setpriv", f"--reuid={NOBODY}", "--regid=bicast", "--clear-groups", "cat", made)
        systemd.ctl("stop", "bicast")
        assert systemd.run("find", "/run", "-name", "api-8653.token") == ""


def test_the_hardened_bridge_unit_prepares_a_bridge(tmp_path: Path) -> None:
    (tmp_path / "gateway.yaml").write_text(GATEWAY)
    prepare = (
        *prepared(tmp_path / "controller.log"),
        f"cp {tmp_path}/gateway.yaml /etc/bicast",
        "cp /opt/bicast/deploy/bicast-bridge.service /etc/systemd/system",
        "mkdir -p /etc/systemd/system/bicast-bridge.service.d",
        "cp /etc/systemd/system/bicast.service.d/test.conf /etc/systemd/system/bicast-bridge.service.d",
        "rm -rf /etc/openvswitch/conf.db",
        *(f"ip link add {name} up type veth peer name {name}-peer && ip link set {name}-peer up" for name in PORTS),
    )
    with booted(tmp_path, "\n".join(prepare)) as systemd:
        systemd.run("/usr/share/openvswitch/scripts/ovs-ctl", "start", "--system-id=random")
        systemd.ctl("start", "bicast")
        systemd.ctl("start", "bicast-bridge")
        connected = ("ovs-vsctl", "--bare", "--columns=is_connected", "list", "Controller")
        until(lambda: systemd.run(*connected) == "true", "the bridge met its controller")
        assert systemd.run("/opt/bicast/bicast", "bridge", "/etc/bicast/gateway.yaml").endswith("nothing to change")
        systemd.run("ip", "link", "set", "dev", PORTS[0], "down")
        until(lambda: "UP" in systemd.run("ip", "-brief", "link", "show", "dev", PORTS[0]), "the port is up again")
        systemd.ctl("stop", "bicast-bridge")
        assert systemd.property("bicast-bridge", "Result") == "success"
        systemd.run("/usr/share/openvswitch/scripts/ovs-ctl", "stop")


def test_the_hardened_lan_unit_gives_a_device_an_address(tmp_path: Path) -> None:
    prepare = (
        *prepared(tmp_path / "controller.log"),
        "cp /opt/bicast/topologies/lan.yaml /etc/bicast/gateway.yaml",
        "cp /opt/bicast/deploy/bicast-lan.service /etc/systemd/system",
        "mkdir -p /etc/systemd/system/bicast-lan.service.d",
        "cp /etc/systemd/system/bicast.service.d/test.conf /etc/systemd/system/bicast-lan.service.d",
        "ip link add lan0 up type veth peer name device && ip link set device up",
        "ip address add 192.168.8.1/24 dev lan0",
    )
    with booted(tmp_path, "\n".join(prepare)) as systemd:
        systemd.ctl("start", "bicast-lan")
        asks = ("busybox", "udhcpc", "-B", "-i", "device", "-n", "-q", "-t", "20", "-T", "1", "-s", "/bin/true")
        systemd.run(*asks, "-x", "hostname:tablet")  # fails without an answer
        assert re.search(r" 192\.168\.8\.\d+ tablet ", systemd.run("cat", "/var/lib/bicast-lan/leases"))
        assert systemd.run("ps", "-o", "user=", "-C", "dnsmasq") != "root"
        systemd.ctl("stop", "bicast-lan")
        assert systemd.property("bicast-lan", "Result") == "success"


def test_hardened_agents_can_do_what_root_can(tmp_path: Path) -> None:
    """No role lacks more under its unit than if root runs it."""
    with with_agents(tmp_path) as systemd:
        for role in ("gateway", "relay", "terminal"):
            name = {"gateway": "home", "relay": "tokyo", "terminal": "client"}[role]
            joined(systemd, name, role)
            systemd.run("systemd-run", "--unit=root", "/usr/local/bin/bicast-agent", "run", "--role", role)
            lacked = missing(systemd, name)
            systemd.ctl("stop", "root")
            systemd.ctl("start", f"bicast-agent@{role}")
            until(
                lambda name=name, lacked=lacked: missing(systemd, name) <= lacked, f"the {role} lacks {lacked} at most"
            )
            systemd.ctl("stop", f"bicast-agent@{role}")
            systemd.run("rm", "-r", "/var/lib/bicast-agent")


def test_the_watchdog_restarts_an_agent_that_hangs(tmp_path: Path) -> None:
    unit = "bicast-agent@gateway"
    with with_agents(tmp_path, "[Service]", "WatchdogSec=3") as systemd:
        joined(systemd, "home", "gateway")
        systemd.ctl("start", unit)
        first, ready = (systemd.property(unit, name) for name in ("MainPID", "WatchdogTimestampMonotonic"))
        until(lambda: systemd.property(unit, "WatchdogTimestampMonotonic") > ready, "it tells that it is alive")
        assert systemd.property(unit, "NRestarts") == "0"
        systemd.kill(unit, signal.SIGSTOP)
        until(lambda: systemd.property(unit, "MainPID") not in (first, "0"), "it runs again", STARTED_WITHIN_S)
        assert systemd.property(unit, "NRestarts") == "1"
        missing(systemd, "home")  # the new process is connected


@contextmanager
def with_agents(place: Path, *settings: str) -> Iterator[Systemd]:
    """Yield a systemd with a running controller and the agents' units, with these settings more."""
    log = place / "controller.log"
    (place / "gateway.yaml").write_text("controller: {agents: {}}\n" + SITES)
    units = "/etc/systemd/system"
    (place / "agents.conf").write_text("\n".join(["[Unit]", "DefaultDependencies=no", *settings, ""]))
    prepare = (
        *prepared(log),
        f"cp {place}/gateway.yaml /etc/bicast",
        "install /opt/bicast/build/bicast-agent /usr/local/bin/bicast-agent",
        f"cp -r /opt/bicast/deploy/bicast-agent@* {units}",
        f"install -D {place}/agents.conf {units}/bicast-agent@.service.d/test.conf",
    )
    with booted(place, "\n".join(prepare)) as systemd:
        systemd.ctl("start", "bicast")
        await_start(log)
        yield systemd


def joined(systemd: Systemd, name: str, role: str) -> None:
    words = ("relay", "add", name, "203.0.113.9") if role == "relay" else ("enroll", name, "--role", role)
    line = next(line for line in systemd.run("/opt/bicast/bicast", *words).splitlines() if " join " in line)
    systemd.run("/usr/local/bin/bicast-agent", *shlex.split(line.partition(" && ")[0])[1:])


def missing(systemd: Systemd, name: str) -> set[tuple[str, str]]:
    """Return what the connected agent lacks, as its own report says."""

    def seen() -> list[dict[str, Any]]:
        status = json.loads(systemd.run("/opt/bicast/bicast", "status", "--json"))
        return [one for one in status["agents"] if one["name"] == name and one["state"] == "here"]

    until(lambda: bool(seen()), f"{name} reports")
    (agent,) = seen()
    return {(each["capability"], each["reason"]) for each in agent["missing"]}
