# SPDX-License-Identifier: Apache-2.0
"""Relays and gateways know each other by the controller's certificates. Invalid messages from them are refused."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from api import agent_pb2 as pb
from controller.edges.agentlink import decode
from controller.edges.trust.authority import Trust
from controller.edges.trust.refusals import Refused
from controller.model.known import WEB
from controller.protocol.enrolment import Binding, Credential
from controller.protocol.orders import (
    Direct,
    DistanceTarget,
    InterceptRelay,
    MeasureDistances,
    Relay,
    RelayClient,
    Take,
    TunnelOrder,
    Tunnels,
)
from controller.protocol.reports import DistancesMeasured, PendingDestination, Resulted, Role
from tests.controller.edges.agentlink.agent import Identity, new_key, request
from tests.controller.edges.agentlink.fake_controller import FakeController

STANDS = Relay(443, (RelayClient("home", b"\1" * 32),), WEB, "bbr")


def ordered(fake_controller: FakeController, identity: Identity) -> pb.Relay:
    stream, opened = fake_controller.served(identity)
    fake_controller.agents.perform(Direct(opened.session, 5, STANDS))
    return stream.on_event().directive.relay


# Certificates


def test_relay_gets_a_certificate_for_its_own_key_and_name(fake_controller: FakeController) -> None:
    oslo = fake_controller.enrolled("oslo")
    order = ordered(fake_controller, oslo)
    assert (order.port, order.congestion, order.gateways[0].name) == (443, "bbr", "home")
    certificate = x509.load_der_x509_certificate(order.certificate)
    assert certificate.public_key() == oslo.key.public_key()
    assert certificate.not_valid_after_utc >= oslo.certificate.not_valid_after_utc
    verifier = PolicyBuilder().store(Store([oslo.ca]))
    verifier.build_server_verifier(x509.DNSName("oslo")).verify(certificate, [])
    for shown, name in ((certificate, "bicast-controller"), (oslo.certificate, "oslo")):
        with pytest.raises(VerificationError):
            verifier.build_server_verifier(x509.DNSName(name)).verify(shown, [])
    with pytest.raises(VerificationError):
        verifier.build_client_verifier().verify(certificate, [])


def test_revoked_relay_is_told_to_stop_before_the_disconnect(fake_controller: FakeController) -> None:
    stream, opened = fake_controller.served(fake_controller.enrolled("oslo"))
    numbers = range(5, 25)  # most of them wait for an earlier one to be written when the session ends
    for number in numbers:
        fake_controller.agents.perform(Direct(opened.session, number, Relay()))
    fake_controller.agents.revoke("oslo")
    words = [stream.on_event().directive for _ in numbers]
    assert [word.id for word in words] == list(numbers)
    assert all(word.HasField("relay") and not word.relay.port and not word.relay.certificate for word in words)
    assert stream.ended().code is grpc.StatusCode.PERMISSION_DENIED


def test_valid_credentials_are_reported_at_start_and_on_change(tmp_path: Path) -> None:
    told: list[dict[str, Credential]] = []
    trust = Trust(str(tmp_path))
    trust.ledger.tell(lambda vouched: told.append(dict(vouched)))
    first = x509.load_der_x509_certificate(joined(trust))
    second = x509.load_der_x509_certificate(joined(trust))
    assert told == [{}, {"home": credential(first)}], "the older certificate counts until the newer one is used"
    trust.ledger.used("home", f"{second.serial_number:040x}")
    trust.ledger.revoke("home")
    assert told[2:] == [{"home": credential(second)}, {}]


def credential(certificate: x509.Certificate) -> Credential:
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    whole = certificate.public_bytes(Encoding.DER)
    return Credential(Role.GATEWAY, hashlib.sha256(whole).digest(), hashlib.sha256(key).digest())


def joined(trust: Trust) -> bytes:
    secret = trust.invite("home", Binding(Role.GATEWAY)).token.partition(".")[0]
    return trust.join("home", secret, request("home", new_key()))[0]


def test_tunnel_key_depends_only_on_the_end_certificates(fake_controller: FakeController) -> None:
    home, ends = fake_controller.enrolled("home"), (b"\1" * 32, b"\2" * 32)

    def keys(*orders: TunnelOrder) -> list[bytes]:
        stream, opened = fake_controller.served(home)
        fake_controller.agents.perform(Direct(opened.session, 5, Tunnels(orders)))
        found = [one.key for one in stream.on_event().directive.tunnels.tunnels]
        stream.close()
        fake_controller.closed()
        return found

    one = TunnelOrder("wifi", "wifi0", 10, 4789, None, None, certificates=ends)
    others = (
        replace(one, vni=11),
        replace(one, certificates=ends[:1]),
        replace(one, certificates=(ends[0], b"\3" * 32)),
    )
    first = keys(one, *others)
    assert len(set(first)) == 4 and all(len(key) == 32 for key in first)
    fake_controller.again()
    assert keys(one, *others) == first, "the same after a restart"


# Messages


def test_walk_result_is_accepted_once_and_only_if_ordered(fake_controller: FakeController) -> None:
    stream, opened = fake_controller.served(fake_controller.enrolled("home"))
    fake_controller.agents.perform(
        Direct(opened.session, 5, MeasureDistances((DistanceTarget("192.0.2.1", 443, True),)))
    )
    (to,) = stream.on_event().directive.walk.to
    assert (to.address, to.port, to.routers) == ("192.0.2.1", 443, True)
    stream.say(pb.FromAgent(result=pb.Result(directive=5, done=True)))
    fake_controller.event(Resulted)
    way = pb.Way(address="192.0.2.1", rtt_us=900, routers=[pb.Router(address="", rtt_us=0)])
    stream.say(pb.FromAgent(walked=pb.Walked(directive=5, ways=[way])))
    walked = fake_controller.event(DistancesMeasured)
    assert walked.ways[0].rtt_us == 900 and walked.ways[0].routers[0].address == ""
    stream.say(pb.FromAgent(walked=pb.Walked(directive=5)))
    assert stream.ended().said == "walked by directive 5, which was not sent or is already reported"


def test_take_order_arrives_complete(fake_controller: FakeController) -> None:
    stream, opened = fake_controller.served(fake_controller.enrolled("home"))
    relay = InterceptRelay("oslo", "198.51.100.7", 443, draining=True, key_sha256=b"\1" * 32)
    order = Take("rl-home", relays=(relay,), block=True, left_alone=("192.0.2.0/24",))
    fake_controller.agents.perform(Direct(opened.session, 5, order))
    take = stream.on_event().directive.take
    (oslo,) = take.relays
    assert (oslo.name, oslo.address, oslo.port, oslo.draining) == ("oslo", "198.51.100.7", 443, True)
    assert oslo.key_sha256 == b"\1" * 32, "the gateway accepts no other key"
    assert (take.port, take.block, list(getattr(take, "except"))) == ("rl-home", True, ["192.0.2.0/24"])


def taking_of(prefix: str = "45.0.30.0/24", address: str = "45.0.30.9", port: int = 443) -> pb.Taking:
    return pb.Taking(sought=[pb.Sought(prefix=prefix, address=address, port=port)])


BAD: dict[str, Callable[[], object]] = {
    "too many relays": lambda: decode.interception_report(
        pb.Taking(relays=[pb.RelayReached(name=str(n)) for n in range(65)])
    ),
    "a relay twice": lambda: decode.interception_report(pb.Taking(relays=[pb.RelayReached(name="oslo")] * 2)),
    "too many terminals": lambda: decode.interception_report(
        pb.Taking(terminals=[pb.TerminalTaken(name=str(n)) for n in range(251)])
    ),
    "a terminal twice": lambda: decode.interception_report(pb.Taking(terminals=[pb.TerminalTaken(name="tv")] * 2)),
    "too much sought": lambda: decode.interception_report(pb.Taking(sought=list(taking_of().sought) * 65)),
    "no prefix": lambda: decode.interception_report(taking_of(prefix="45.0.30/24")),
    "a prefix of another length": lambda: decode.interception_report(taking_of(prefix="45.0.0.0/16")),
    "bits behind the prefix": lambda: decode.interception_report(taking_of(prefix="45.0.30.9/24")),
    "an address elsewhere": lambda: decode.interception_report(taking_of(address="45.0.31.9")),
    "an address of another family": lambda: decode.interception_report(taking_of(address="2a00::1")),
    "no port": lambda: decode.interception_report(taking_of(port=0)),
    "too many ways": lambda: decode.walked(1, pb.Walked(ways=[pb.Way()] * 65)),
    "a round trip beyond any timeout": lambda: decode.walked(1, pb.Walked(ways=[pb.Way(rtt_us=60_000_001)])),
    "too many routers": lambda: decode.walked(1, pb.Walked(ways=[pb.Way(routers=[pb.Router()] * 31)])),
    "a router that is none": lambda: decode.walked(1, pb.Walked(ways=[pb.Way(routers=[pb.Router(address="x")])])),
}


@pytest.mark.parametrize("said", BAD.values(), ids=BAD)
def test_impossible_value_is_refused_with_a_sentence(said: Callable[[], object]) -> None:
    with pytest.raises(Refused) as refused:
        said()
    assert str(refused.value).isprintable() and len(str(refused.value)) < 300


def test_destination_is_ignored_unless_relays_may_reach_it() -> None:
    near = [
        ("10.0.0.0/24", "10.0.0.1"),
        ("127.0.0.0/24", "127.0.0.1"),
        ("fe80::/48", "fe80::1"),
        ("224.0.0.0/24", "224.0.0.5"),
    ]
    for prefix, address in near:
        assert decode.interception_report(taking_of(prefix, address)).pending == ()
    assert decode.interception_report(taking_of("2a00:1::/48", "2A00:1::1")).pending == (
        PendingDestination("2a00:1::/48", "2a00:1::1", 443),
    )


def test_busy_share_and_reason_are_bounded() -> None:
    told = decode.relay_report(pb.Relaying(busy_percent=2**32 - 1, reason="\x1b" * 5000))
    assert told.busy_percent == 100 and told.reason.isprintable() and len(told.reason) <= 400
