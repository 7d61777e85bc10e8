# SPDX-License-Identifier: Apache-2.0
"""The exchange admits one peer, once, and answers no other."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.model.settings import Endpoint
from gateway.host import HostError
from gateway.init import exchange
from gateway.init.exchange import Channel, ExchangeError, Reception, called, reception
from gateway.init.invitation import Invitation, invitation

HERE = "127.0.0.1"
ANY_PORT = Endpoint(HERE, 0)
FACTS = {"lan": "enp3s0"}
PATIENCE_S = 20.0


class Admission(threading.Thread):
    """A far site that waits for its peer beside the test."""

    def __init__(self, here: Reception) -> None:
        super().__init__(daemon=True)
        self._here = here
        self.found: list[tuple[Channel, dict[str, Any]]] = []
        self.start()

    def run(self) -> None:
        with suppress(OSError, ValueError, HostError):  # the reception is closed before anybody came
            self.found.append(self._here.admit(PATIENCE_S))

    def ended(self) -> tuple[Channel, dict[str, Any]]:
        self.join(PATIENCE_S)
        return self.found[0]


@contextmanager
def receiving() -> Iterator[tuple[Reception, Admission]]:
    with reception(ANY_PORT) as here:
        yield here, Admission(here)


def answered(invited: Invitation, message: dict[str, Any]) -> bytes:
    """Return every byte that the far site sends to a peer with this first message."""
    with called(invited, message) as channel:
        try:
            channel._tls.settimeout(PATIENCE_S)
            return channel._tls.recv(1)
        except OSError:
            return b""


def raw_peer(where: Endpoint, sent: bytes) -> bytes:
    with socket.create_connection((where.host, where.port)) as peer:
        peer.settimeout(PATIENCE_S)
        received = b""
        try:
            peer.sendall(sent)
            peer.shutdown(socket.SHUT_WR)
            while part := peer.recv(4096):
                received += part
        except OSError:  # reset
            pass
        return received


def tls_peer(where: Endpoint, sent: bytes) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((where.host, where.port)) as raw, context.wrap_socket(raw) as tls:
        tls.settimeout(PATIENCE_S)
        try:
            tls.sendall(sent)
            socket.socket.shutdown(tls, socket.SHUT_WR)
            return tls.recv(1)
        except OSError:
            return b""


def test_invitation_survives_the_round_trip_through_text() -> None:
    with reception(ANY_PORT) as here:
        made = here.invitation("203.0.113.9")
        assert invitation(str(made)) == made
        assert invitation(f" {str(made).lower()}\n") == made
        sixth = replace(made, where=Endpoint("2001:db8::9", 8654))
        assert invitation(str(sixth)) == sixth


@pytest.mark.parametrize(
    "text",
    [
        "",
        "203.0.113.9",
        "203.0.113.9:8654/A.B",
        "999.0.0.1:8654/{}.{}",
        "203.0.113.9:0/{}.{}",
        "x" * 500,
        "1.2.3.4:1/é.é",
    ],
)
def test_invitation_refuses_other_texts_with_a_remedy(text: str) -> None:
    with pytest.raises(HostError, match=r"expected"):
        invitation(text.format("A" * 32, "A" * 52))


@given(st.text(max_size=250))
def test_invitation_raises_only_host_errors(text: str) -> None:
    with pytest.raises(HostError):
        invitation(text)


def test_exchange_carries_messages_in_both_directions() -> None:
    with receiving() as (here, admission), called(here.invitation(HERE), FACTS) as home:
        far, facts = admission.ended()
        with far:
            assert facts == FACTS
            far.send({"file": "x" * 50_000})
            assert home.receive(PATIENCE_S) == {"file": "x" * 50_000}
            home.send({"started": True})
            assert far.receive(PATIENCE_S) == {"started": True}


def test_home_sends_nothing_to_a_machine_with_another_pin() -> None:
    with receiving() as (here, admission), reception(ANY_PORT) as other:
        false = replace(other.invitation(HERE), where=here.invitation(HERE).where)
        with pytest.raises(ExchangeError, match="nothing was sent to it"), called(false, FACTS):
            pass
        with called(here.invitation(HERE), FACTS):
            admission.ended()


def test_far_site_answers_nothing_to_a_wrong_token() -> None:
    with receiving() as (here, admission):
        right = here.invitation(HERE)
        assert answered(replace(right, token="A" * 32), FACTS) == b""
        assert answered(replace(right, token=""), FACTS) == b""
        assert not admission.found
        with called(right, FACTS):
            admission.ended()


def test_far_site_admits_a_token_once() -> None:
    with receiving() as (here, admission), called(here.invitation(HERE), FACTS):
        admission.ended()
        threading.Thread(target=lambda: here._meet(*accepted(here)), daemon=True).start()
        assert answered(here.invitation(HERE), FACTS) == b""


def accepted(here: Reception) -> tuple[socket.socket, str]:
    raw, (host, _) = here._listener.accept()
    return raw, host


HELLO = struct.pack("!I", 2) + b"[]"
HOSTILE = (
    struct.pack("!I", 2**32 - 1),  # a length beyond the limit
    struct.pack("!I", exchange.MOST_HELLO_BYTES + 1),
    HELLO,
    struct.pack("!I", 4) + b"\xff\xfe\x00\x00",
    struct.pack("!I", 8000) + b"[" * 8000,  # deeper than Python's recursion
    *(
        struct.pack("!I", len(text)) + text
        for text in (json.dumps(each).encode() for each in ({}, {"token": None}, {"token": ["A"]}, {"token": "é"}))
    ),
)


def test_far_site_answers_nothing_to_hostile_messages() -> None:
    with receiving() as (here, admission):
        where = here.invitation(HERE).where
        for sent in HOSTILE:
            assert tls_peer(where, sent) == b"", sent[:20]
        assert raw_peer(where, b"GET / HTTP/1.1\r\n\r\n").find(b"bicast") == -1
        assert not admission.found
        with called(here.invitation(HERE), FACTS):
            admission.ended()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_random_bytes_do_not_disturb_the_far_site(sent: bytes) -> None:
    with receiving() as (here, admission):
        where = here.invitation(HERE).where
        assert tls_peer(where, sent) == b""
        raw_peer(where, sent)
        with called(here.invitation(HERE), FACTS):
            admission.ended()


def test_many_silent_strangers_do_not_keep_home_out() -> None:
    with receiving() as (here, admission):
        where = here.invitation(HERE).where
        silent = [socket.create_connection((where.host, where.port)) for _ in range(3 * exchange.MOST_STRANGERS)]
        with called(here.invitation(HERE), FACTS):
            admission.ended()
        for each in silent:
            each.close()


def test_admission_ends_when_its_time_is_over() -> None:
    with reception(ANY_PORT) as here, pytest.raises(ExchangeError, match="run `bicast init --far` again"):
        here.admit(0)


def test_message_ends_when_its_time_is_over() -> None:
    with receiving() as (here, admission), called(here.invitation(HERE), FACTS) as home:
        admission.ended()
        with pytest.raises(ExchangeError, match="broke off"):
            home.receive(0)


def test_nobody_at_the_address_is_a_sentence_with_a_remedy() -> None:
    with reception(ANY_PORT) as here:
        gone = here.invitation(HERE)
    with pytest.raises(ExchangeError, match="still waiting there"), called(gone, FACTS):
        pass
