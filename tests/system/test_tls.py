# SPDX-License-Identifier: Apache-2.0
"""With TLS, a switch without a certificate of our authority is refused and gets no flows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.processes.controller import OPENFLOW_ADDRESS, Controller, controlled
from lab.stage import ovs
from lab.stage.nodes import MAX_BACKOFF_MS
from lab.stage.stage import Stage, raised
from tests.controller.edges.openflow.test_tls import Authority
from tests.system.conftest import PAPER
from tests.system.evidence import assert_reaches, flows, until
from topologies.paper import BRIDGE, SERVER, PaperTopo

TARGET = f"ssl:{OPENFLOW_ADDRESS}"


@dataclass(frozen=True)
class TlsSetup:
    net: Stage
    controller: Controller
    ours: Authority


@pytest.fixture(scope="module")
def home(place: Path) -> Iterator[TlsSetup]:
    ours = Authority(place, "ours")
    certificate, key = ours.sign("controller")
    files = f"{{certificate: {certificate}, key: {key}, ca: {ours.certificate}}}"
    tls = f", openflow: {{listen: {OPENFLOW_ADDRESS}, tls: {files}}}"
    with raised(PaperTopo(shaped=False)) as net, controlled(PAPER, tls, directory=place) as controller:
        yield TlsSetup(net, controller, ours)


def connect(target: str, certificate: str, key: str, authority: str) -> None:
    ovs.vsctl("set-ssl", key, certificate, authority)
    ovs.vsctl("set-controller", BRIDGE, target, "--", "set", "Controller", BRIDGE, f"max_backoff={MAX_BACKOFF_MS}")


def test_a_switch_with_a_strangers_certificate_is_refused(home: TlsSetup, place: Path) -> None:
    stranger = Authority(place, "stranger")
    connect(TARGET, *stranger.sign("switch"), home.ours.certificate)
    home.controller.await_word("TLS handshake refused")
    assert "127.0.0.1" in home.controller.log_text().splitlines()[-1]
    assert flows(BRIDGE) == []


def test_a_switch_without_tls_is_refused(home: TlsSetup) -> None:
    ovs.vsctl("set-controller", BRIDGE, TARGET.replace("ssl", "tcp"))
    until(lambda: "last_error" in ovs.vsctl("get", "Controller", BRIDGE, "status"), "it was turned away")
    assert home.controller.client.get("status")["gateways"][0]["state"] == "absent"
    assert flows(BRIDGE) == []


def test_a_switch_with_our_certificate_is_served(home: TlsSetup) -> None:
    connect(TARGET, *home.ours.sign("0000000000000001"), home.ours.certificate)
    home.controller.await_steady()
    assert_reaches(home.net.machine("client"), "192.168.110.3", SERVER)
    assert home.controller.client.set_mode("client", "single")["messages"] == 2
