"""With TLS, a switch shows a certificate of our authority, or it is told and gets nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.edges.config.settings import DEFAULT_OPENFLOW
from lab.processes.controller import Controller, controlled
from lab.stage import ovs
from lab.stage.command import run
from lab.stage.nodes import MAX_BACKOFF_MS
from lab.stage.stage import Stage, raised
from tests.system.conftest import PAPER
from tests.system.evidence import assert_reaches, flows, until
from topologies.paper import BRIDGE, SERVER, PaperTopo

TARGET = f"ssl:{DEFAULT_OPENFLOW}"


class Authority:
    """Signs what it is asked to."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory, self.name = directory, name
        self.certificate, self.key = directory / f"{name}.pem", directory / f"{name}.key"
        openssl(*NEW, "-x509", "-subj", f"/CN={name}", "-keyout", str(self.key), "-out", str(self.certificate))

    def sign(self, name: str) -> tuple[Path, Path]:
        certificate, key = (self.directory / f"{self.name}-{name}.{kind}" for kind in ("pem", "key"))
        openssl(*NEW, "-x509", "-CA", str(self.certificate), "-CAkey", str(self.key), "-subj", f"/CN={name}",
                "-keyout", str(key), "-out", str(certificate))  # fmt: skip
        return certificate, key


NEW = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


def openssl(*words: str) -> None:
    run("openssl", *words)


@dataclass(frozen=True)
class Secure:
    net: Stage
    controller: Controller
    ours: Authority


@pytest.fixture(scope="module")
def home(place: Path) -> Iterator[Secure]:
    ours = Authority(place, "ours")
    certificate, key = ours.sign("controller")
    tls = f", openflow: {{tls: {{certificate: {certificate}, key: {key}, ca: {ours.certificate}}}}}"
    with raised(PaperTopo(shaped=False)) as net, controlled(PAPER, tls, directory=place) as controller:
        yield Secure(net, controller, ours)


def connect(target: str, certificate: Path, key: Path, authority: Path) -> None:
    ovs.vsctl("set-ssl", str(key), str(certificate), str(authority))
    ovs.vsctl("set-controller", BRIDGE, target, "--", "set", "Controller", BRIDGE, f"max_backoff={MAX_BACKOFF_MS}")


def test_a_switch_with_a_strangers_certificate_is_refused(home: Secure, place: Path) -> None:
    stranger = Authority(place, "stranger")
    connect(TARGET, *stranger.sign("switch"), home.ours.certificate)
    home.controller.await_word("TLS handshake refused")
    assert "127.0.0.1" in home.controller.heard().splitlines()[-1]
    assert flows(BRIDGE) == []


def test_a_switch_without_tls_is_refused(home: Secure) -> None:
    ovs.vsctl("set-controller", BRIDGE, TARGET.replace("ssl", "tcp"))
    until(lambda: "last_error" in ovs.vsctl("get", "Controller", BRIDGE, "status"), "it was turned away")
    assert home.controller.client.get("status")["gateways"][0]["state"] == "absent"
    assert flows(BRIDGE) == []


def test_a_switch_with_our_certificate_is_served(home: Secure) -> None:
    connect(TARGET, *home.ours.sign("0000000000000001"), home.ours.certificate)
    home.controller.await_steady()
    assert_reaches(home.net.machine("client"), "192.168.110.3", SERVER)
    assert home.controller.client.set_mode("client", "single")["messages"] == 2
