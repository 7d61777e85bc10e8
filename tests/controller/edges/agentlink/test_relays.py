# SPDX-License-Identifier: Apache-2.0
"""Relays and gateways know each other by the controller's certificates."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from api import agent_pb2 as pb
from controller.edges.trust.authority import Trust
from controller.model.overrides import WEB
from controller.protocol.enrolment import Binding, Credential
from controller.protocol.orders import (
    Direct,
    DistanceTarget,
    Intercept,
    InterceptRelay,
    MeasureDistances,
    Relay,
    RelayClient,
    TunnelOrder,
    Tunnels,
)
from controller.protocol.reports import DistancesMeasured, Resulted, Role
from tests.controller.edges.agentlink.agent import Identity, new_key, request
from tests.controller.edges.agentlink.fake_controller import FakeController

STANDS = Relay(443, (RelayClient("home", b"\1" * 32),), WEB, "bbr")


def ordered(fake_controller: FakeController, identity: Identity) -> pb.Relay:
    stream, opened = fake_controller.served(identity)
    fake_controller.agents.perform(Direct(opened.session, 5, STANDS))
    return stream.on_event().directive.relay


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
    assert stream.ended().cause == pb.End.CREDENTIAL


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
    return Credential(Role.GATEWAY, hashlib.sha256(key).digest())


def joined(trust: Trust) -> bytes:
    secret = trust.invite("home", Binding(Role.GATEWAY)).token.partition(".")[0]
    return trust.join("home", secret, request("home", new_key()))[0]


def test_tunnel_key_depends_only_on_the_keys_of_both_ends(fake_controller: FakeController) -> None:
    home, ends = fake_controller.enrolled("home"), (b"\1" * 32, b"\2" * 32)

    def keys(*orders: TunnelOrder) -> list[bytes]:
        stream, opened = fake_controller.served(home)
        fake_controller.agents.perform(Direct(opened.session, 5, Tunnels(orders)))
        found = [one.key for one in stream.on_event().directive.tunnels.tunnels]
        stream.close()
        fake_controller.closed()
        return found

    one = TunnelOrder("wifi", "wifi0", 10, 4789, None, None, keys=ends)
    others = (
        replace(one, vni=11),
        replace(one, keys=ends[:1]),
        replace(one, keys=(ends[0], b"\3" * 32)),
    )
    first = keys(one, *others)
    assert len(set(first)) == 4 and all(len(key) == 32 for key in first)
    fake_controller.again()
    assert keys(one, *others) == first, "the same after a restart"


def test_distance_result_is_accepted_once_and_only_if_ordered(fake_controller: FakeController) -> None:
    stream, opened = fake_controller.served(fake_controller.enrolled("home"))
    fake_controller.agents.perform(
        Direct(opened.session, 5, MeasureDistances((DistanceTarget("192.0.2.1", 443, True),)))
    )
    (to,) = stream.on_event().directive.measure_distances.targets
    assert (to.address, to.port, to.routers) == ("192.0.2.1", 443, True)
    stream.say(pb.FromAgent(result=pb.Result(directive=5, done=True)))
    fake_controller.event(Resulted)
    way = pb.Distance(address="192.0.2.1", rtt_us=900, routers=[pb.Router(address="", rtt_us=0)])
    stream.say(pb.FromAgent(distances_measured=pb.DistancesMeasured(directive=5, distances=[way])))
    measured = fake_controller.event(DistancesMeasured)
    assert measured.distances[0].rtt_us == 900 and measured.distances[0].routers[0].address == ""
    stream.say(pb.FromAgent(distances_measured=pb.DistancesMeasured(directive=5)))
    assert stream.ended().said == "sent distances_measured of directive 5, which was not sent or is already reported"


def test_intercept_order_arrives_complete(fake_controller: FakeController) -> None:
    stream, opened = fake_controller.served(fake_controller.enrolled("home"))
    relay = InterceptRelay("oslo", "198.51.100.7", 443, draining=True, key_sha256=b"\1" * 32)
    order = Intercept("rl-home", relays=(relay,), block=True, excepted=("192.0.2.0/24",))
    fake_controller.agents.perform(Direct(opened.session, 5, order))
    take = stream.on_event().directive.intercept
    (oslo,) = take.relays
    assert (oslo.name, oslo.address, oslo.port, oslo.draining) == ("oslo", "198.51.100.7", 443, True)
    assert oslo.key_sha256 == b"\1" * 32, "the gateway accepts no other key"
    assert (take.port, take.block, list(take.excepted)) == ("rl-home", True, ["192.0.2.0/24"])
