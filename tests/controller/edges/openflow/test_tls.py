# SPDX-License-Identifier: Apache-2.0
"""With TLS configured, a switch without a certificate of our CA is refused each time."""

from __future__ import annotations

import contextlib
import logging
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.edges.openflow import connection, listener
from controller.edges.openflow.connection import OPENING_S
from controller.edges.trust.tls import TlsError, server_context
from controller.model.settings import MutualTls
from controller.program.diff import AddFlow
from controller.program.program import Flow, Output, Program, fields
from tests.controller.edges.authority import Authority
from tests.controller.edges.openflow.conftest import WireRecorder
from tests.controller.edges.openflow.peers import FEATURES_REQUEST, HELLO, Peer, features, message
from tests.controller.edges.openflow.switches import Ovs

TLS_1_2 = ssl.TLSVersion.TLSv1_2


def dpid(number: int) -> str:
    return f"{number:016x}"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), "ours")


@pytest.fixture
def secured(authority: Authority) -> Iterator[WireRecorder]:
    made = WireRecorder(MutualTls(*authority.sign("controller"), authority.certificate))
    yield made
    made.wire.stop()


def _client(authority: Authority, identity: tuple[str, str] | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.certificate)
    context.check_hostname = False
    if identity is not None:
        context.load_cert_chain(*identity)
    return context


def test_switches_with_a_certificate_are_served(secured: WireRecorder, authority: Authority, ovs: Ovs) -> None:
    certificate, key = authority.sign("switch", *(dpid(number) for number in (1, 2, 3)))
    ovs.vsctl("set-ssl", key, certificate, authority.certificate)
    names = ["safe1", "safe2", "safe3"]
    for number, name in enumerate(names, 1):
        ovs.bridge(name, number, f"ssl:127.0.0.1:{secured.wire.address.port}")
    try:
        for number in (1, 2, 3):
            session = secured.opened(number).session
            wanted = Program.of(Flow(0, each, fields(in_port=1), (Output(2),)) for each in range(1, 2000))
            assert secured.apply(session, *(AddFlow(flow) for flow in wanted.flows.values())) == []
            assert secured.read(session).program == wanted
    finally:
        ovs.remove(*names)


def test_peer_without_a_valid_certificate_is_refused_each_time(
    secured: WireRecorder, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = Authority(tmp_path, "theirs").sign("switch")
    for identity in (None, theirs, None, theirs):
        try:
            with Peer(secured.wire.address, _client(authority, identity)) as peer:
                peer.send(message(HELLO))
                assert peer.next() is None
        except (ssl.SSLError, ConnectionError):
            continue  # the client's error depends on the moment
    assert secured.drain() == []
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1
    assert "TLS handshake refused: PEER_DID_NOT_RETURN_A_CERTIFICATE" in told[0]


@pytest.mark.parametrize("names", [("switch",), ("switch", dpid(8)), (dpid(8),), (dpid(9)[1:],)], ids=" ".join)
def test_certificate_for_another_dpid_is_refused(
    secured: WireRecorder, authority: Authority, caplog: pytest.LogCaptureFixture, names: tuple[str, ...]
) -> None:
    with Peer(secured.wire.address, _client(authority, authority.sign(*names))) as peer:
        peer.send(message(HELLO))
        xid, _ = peer.wait(FEATURES_REQUEST)
        peer.send(features(9, xid))
        assert peer.is_ended()
    assert secured.drain() == []
    assert f"has dpid {dpid(9)}, but its certificate names {' and '.join(sorted(names))}; " in caplog.text
    with Peer(secured.wire.address, _client(authority, authority.sign(dpid(9)))) as good:
        good.become_switch(9)
        assert secured.opened(9).dpid == 9


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")  # the reason for the refusal
def test_switch_with_an_older_tls_is_refused(secured: WireRecorder, authority: Authority) -> None:
    """The client accepts any version from TLS 1 to 1.1, which are all insecure."""
    older = _client(authority, authority.sign("switch"))
    older.set_ciphers("ALL:@SECLEVEL=0")
    older.minimum_version, older.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)), Peer(secured.wire.address, older):
        pass
    assert server_context(MutualTls(*authority.sign("controller"), authority.certificate)).minimum_version >= TLS_1_2


def test_certificate_copies_from_systemd_are_read(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = authority.sign("controller")
    names = {certificate: "controller.pem", key: "controller.key", authority.certificate: "ca.pem"}
    for file, name in names.items():
        (tmp_path / name).write_bytes(Path(file).read_bytes())
    tls = MutualTls(*(f"/etc/bicast/no-such/{name}" for name in names.values()))
    with pytest.raises(TlsError, match=r"/etc/bicast/no-such/controller\.pem"):
        server_context(tls)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert server_context(tls).cert_store_stats()["x509_ca"] == 1


def test_unfinished_tls_handshake_ends_after_five_seconds(secured: WireRecorder) -> None:
    began = time.monotonic()
    with Peer(secured.wire.address) as silent:
        assert silent.is_ended()
        assert time.monotonic() - began > OPENING_S / 2


def test_open_tls_handshakes_do_not_keep_a_switch_out(
    secured: WireRecorder, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "OPENING_AT_ONCE", 8)
    for module in (listener, connection):
        monkeypatch.setattr(module, "OPENING_S", 3600.0)  # each connection that ends frees a place
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(Peer(secured.wire.address)) for _ in range(8)]
        good = stack.enter_context(Peer(secured.wire.address, _client(authority, authority.sign(dpid(9)))))
        good.become_switch(9)
        secured.opened(9)
        assert silent[0].is_ended()
