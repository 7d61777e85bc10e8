# SPDX-License-Identifier: Apache-2.0
"""Any bytes from an agent decode to a valid event or are refused with a sentence."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from api import agent_pb2 as pb
from controller.edges.agentlink import decode
from controller.edges.agentlink.decode import LONGEST_ACCOUNT, MOST_DEVICES, MOST_INTERFACES
from controller.edges.trust.refusals import Refused
from controller.features.caps.draft import MOST_PORTS
from controller.protocol.enrolment import Binding
from controller.protocol.reports import (
    MOST_SUBFLOWS,
    InterfaceCounters,
    LanDevice,
    PathHealth,
    PendingDestination,
    ProbePacket,
    Role,
)
from tests.controller.edges.agentlink.agent import HELLO

PHONE = Binding(Role.TERMINAL, "phone")
GOOD = [
    HELLO,
    pb.FromAgent(
        report=pb.Report(
            sequence=2**64 - 1,
            connections=[
                pb.Connection(token=1, subflows=[pb.Subflow(local_address="fd00::1", remote_address="192.0.2.1")])
            ],
            cost=pb.Cost(cpu_us=1),
            elimination=pb.Elimination(
                window_us=20_000,
                paths=[pb.PathCopies(name="wifi", first=1, skew=[0, 1]), pb.PathCopies(name="lte\x1b", eliminated=1)],
                missing=[pb.Missing(port="lte0", reason="gone")],
            ),
        )
    ),
    pb.FromAgent(result=pb.Result(directive=1, answer="a\u2028b" * 1000)),
    pb.FromAgent(fired=pb.FailoverFired(name="\x1b[2J", answer="")),
    pb.FromAgent(
        probe_report=pb.ProbeReport(
            directive=1, reason="gone\x1b", transport="udp", trains=[0, 1], lengths=[16, 1440], sent_ns=[1, 2],
            received_ns=[9, 0], answered_ns=[0, 0], returned_ns=[0, 0],
        )
    ),
    pb.FromAgent(
        report=pb.Report(
            answering=pb.Answering(reason="\u2028", probes=1),
            health=[pb.PathHealth(name="wifi", sent=9, lost=1, windows=[pb.HealthWindow(sent=9, lost=1)])],
        )
    ),
    pb.FromAgent(
        report=pb.Report(
            relay=pb.RelayReport(reason="\u2028", busy_percent=7, congestion="bbr"),
            interception=pb.InterceptionReport(
                relays=[pb.RelayReached(name="oslo", reason="\x1b")], terminals=[pb.TerminalInterception(name="tv")],
                pending=[pb.PendingDestination(prefix="45.0.30.0/24", address="45.0.30.9", port=443)],
            ),
        )
    ),
    pb.FromAgent(
        distances_measured=pb.DistancesMeasured(
            distances=[pb.Distance(address="45.0.30.9", routers=[pb.Router(address="::1")])]
        )
    ),
]  # fmt: skip


def decoded(raw: bytes, role: Role = Role.TERMINAL) -> object:
    """Return the event for the core."""
    word = decode.message(raw)
    match word.WhichOneof("payload"):
        case "hello":
            return decode.opened(1, "phone", "192.0.2.1:5", word.hello, Binding(Role.RELAY))
        case "report":
            return decode.reported(1, role, word.report)
        case "result":
            return decode.resulted(1, word.result)
        case "fired":
            return decode.fired(1, word.fired)
        case "probe_report":
            return decode.probe_report(1, word.probe_report)
        case "distances_measured":
            return decode.distances_measured(1, word.distances_measured)
    raise AssertionError("an unknown message was accepted")


def decoded_or_refused(raw: bytes) -> None:
    try:
        event = decoded(raw)
    except Refused as refused:
        assert len(str(refused)) < 1000 and str(refused).isprintable()
    else:
        texts = [each for name in ("version", "answer", "name") if (each := getattr(event, name, "")) is not None]
        assert all(text.isprintable() and len(text) <= LONGEST_ACCOUNT for text in texts)
        for address in getattr(event, "addresses", ()):
            assert address == "" or (str(ip_address(address)) == address and address.isprintable())


@given(st.binary(max_size=200))
@example(b"")
def test_random_bytes_are_decoded_or_refused(raw: bytes) -> None:
    decoded_or_refused(raw)


@given(st.sampled_from(GOOD), st.integers(min_value=0), st.binary(min_size=1, max_size=4))
def test_mutated_message_is_decoded_or_refused(word: pb.FromAgent, at: int, put: bytes) -> None:
    raw = bytearray(word.SerializeToString())
    at %= len(raw)
    raw[at : at + len(put)] = put
    decoded_or_refused(bytes(raw))


@given(st.text(max_size=60))
@example("fe80::1%\x1b[2J")
def test_address_is_valid_or_refused(text: str) -> None:
    decoded_or_refused(pb.FromAgent(hello=pb.Hello(protocol=1, role=3, addresses=[text])).SerializeToString())
    decoded_or_refused(pb.FromAgent(hello=pb.Hello(protocol=1, role=3, version=text)).SerializeToString())


def test_an_address_has_one_spelling() -> None:
    spellings = ("10.9.0.4", "::ffff:10.9.0.4", "0:0:0:0:0:FFFF:0a09:0004")
    hello = pb.Hello(protocol=1, role=1, addresses=[*spellings, "FD00:0::1", ""])
    assert decode.opened(1, "phone", "192.0.2.1:5", hello, PHONE).addresses == (*["10.9.0.4"] * 3, "fd00::1", "")


EMPTY = pb.Connection()


@pytest.mark.parametrize("subflows", [False, True])
def test_oversized_report_is_refused_before_it_is_decoded(subflows: bool) -> None:
    most = decode.MOST_OF_A_REPORT + 1
    connections = [pb.Connection(subflows=[pb.Subflow()] * most)] if subflows else [EMPTY] * most
    with pytest.raises(Refused, match="reports 65537 connections or subflows: expected at most 65536"):
        decode.reported(1, Role.RELAY, pb.Report(connections=connections))


GOOD_ONE, BAD_ONE = (pb.Subflow(local_address=each, remote_address="192.0.2.2") for each in ("192.0.2.1", "nowhere"))


def one_subflow_each(subflows: list[pb.Subflow]) -> list[pb.Connection]:
    return [pb.Connection(subflows=[each]) for each in subflows]


@pytest.mark.parametrize(
    "connections",
    [
        one_subflow_each([GOOD_ONE] * MOST_SUBFLOWS + [BAD_ONE] * 10_000),
        [pb.Connection(subflows=[GOOD_ONE] * MOST_SUBFLOWS + [BAD_ONE] * 10_000)],
        [*one_subflow_each([GOOD_ONE]), pb.Connection(subflows=[GOOD_ONE] * (MOST_SUBFLOWS - 1) + [BAD_ONE])],
    ],
    ids=["of one each", "of one connection", "in the last connection"],
)
def test_terminal_report_is_cut_at_the_subflow_limit(connections: list[pb.Connection]) -> None:
    """The rest would be refused if it were decoded."""
    report = pb.Report(connections=connections)
    told_of = decode.reported(1, Role.TERMINAL, report)
    assert sum(len(one.subflows) for one in told_of.connections) == MOST_SUBFLOWS and told_of.cut
    with pytest.raises(Refused, match="nowhere"):
        decode.reported(1, Role.RELAY, report)


def test_connections_without_subflows_are_limited_alike() -> None:
    told_of = decode.reported(1, Role.TERMINAL, pb.Report(connections=[EMPTY] * 10_000))
    assert len(told_of.connections) == MOST_SUBFLOWS and told_of.cut


@pytest.mark.parametrize("number", [0, 1, MOST_SUBFLOWS])
def test_terminal_report_within_the_limit_is_read_whole(number: int) -> None:
    told_of = decode.reported(1, Role.TERMINAL, pb.Report(connections=one_subflow_each([GOOD_ONE] * number)))
    assert len(told_of.connections) == number and not told_of.cut


def test_only_a_gateway_reports_flows_and_only_so_many() -> None:
    passing = pb.Passing(terminal_address="192.0.2.1", other_address="192.0.2.2")
    many = pb.Report(capping=pb.Capping(passing=[passing] * decode.MOST_PASSING))
    capping = decode.reported(1, Role.GATEWAY, many).capping
    assert capping is not None and len(capping.passing) == decode.MOST_PASSING
    with pytest.raises(Refused, match="4096 connections through a terminal: expected none"):
        decode.reported(1, Role.TERMINAL, many)
    many.capping.passing.append(pb.Passing(terminal_address="nowhere"))
    with pytest.raises(Refused, match="4097 passing of Capping: expected at most 4096"):
        decode.reported(1, Role.GATEWAY, many)


def test_only_a_gateway_reports_interfaces_and_only_so_many() -> None:
    report = pb.Report(interfaces=[pb.Interface(name="wwan0", bytes_sent=3, bytes_received=4)] * (MOST_INTERFACES + 1))
    assert decode.reported(1, Role.TERMINAL, report).interfaces == ()
    assert decode.reported(1, Role.GATEWAY, report).interfaces == (InterfaceCounters("wwan0", 3, 4),) * MOST_INTERFACES


def test_only_a_gateway_reports_devices_and_only_so_many() -> None:
    one = pb.LanDevice(name="tab\tlet", address="192.168.8.57", mac="02:00:00:00:08:01")
    report = pb.Report(devices=[one] * (MOST_DEVICES + 1))
    assert decode.reported(1, Role.TERMINAL, report).devices == ()
    expected = LanDevice("tab let", "192.168.8.57", "02:00:00:00:08:01")
    assert decode.reported(1, Role.GATEWAY, report).devices == (expected,) * MOST_DEVICES


def test_gateway_without_any_program_may_report_each_port() -> None:
    missing = [pb.Missing(port=f"gw-{number}", reason="gone") for number in range(MOST_PORTS)]
    report = pb.Report(capping=pb.Capping(missing=[*missing, pb.Missing(port="all", reason="unreadable")]))
    capping = decode.reported(1, Role.GATEWAY, report).capping
    assert capping is not None and len(capping.missing) == MOST_PORTS + 1
    report.capping.missing.append(pb.Missing(port="one more"))
    with pytest.raises(Refused, match="258 missing of Capping: expected at most 257"):
        decode.reported(1, Role.GATEWAY, report)


HOUR_NS = 3600 * 10**9


def columns(packets: int) -> dict[str, Any]:
    """Return the largest probe result, with the longest numbers."""
    return {
        "trains": [number % decode.MOST_PACKETS for number in range(packets)],
        "lengths": [1440] * packets,
        **dict.fromkeys(("sent_ns", "received_ns", "answered_ns", "returned_ns"), [HOUR_NS] * packets),
    }


def report(**parts: Any) -> pb.FromAgent:
    return pb.FromAgent(report=pb.Report(**parts))


def copies(**parts: Any) -> pb.FromAgent:
    return report(elimination=pb.Elimination(**parts))


def probed(transport: str = "udp", **changed: list[int]) -> pb.FromAgent:
    return pb.FromAgent(probe_report=pb.ProbeReport(transport=transport, **columns(1) | changed))


def interception(**parts: Any) -> pb.FromAgent:
    return report(interception=pb.InterceptionReport(**parts))


def pending(prefix: str = "45.0.30.0/24", address: str = "45.0.30.9", port: int = 443) -> pb.FromAgent:
    return interception(pending=[pb.PendingDestination(prefix=prefix, address=address, port=port)])


def measured(*distances: pb.Distance) -> pb.FromAgent:
    return pb.FromAgent(distances_measured=pb.DistancesMeasured(distances=distances))


MANY = [str(number) for number in range(251)]
PARTS = pb.PathHealth(name="wifi", sent=9, lost=2, lost_there=2, lost_back=1)
LOST = pb.HealthWindow(sent=1, lost=2)
IMPOSSIBLE: dict[str, tuple[pb.FromAgent, str]] = {
    "a path of copies twice": (copies(paths=[pb.PathCopies(name="wifi")] * 2), "one path of copies twice"),
    "paths of copies": (copies(paths=[pb.PathCopies(name=each) for each in MANY[:65]]), "65 paths of Elimination"),
    "skews": (copies(paths=[pb.PathCopies(name="wifi", skew=range(65))]), "65 skew of PathCopies"),
    "ports": (copies(missing=[pb.Missing()] * 65), "65 missing of Elimination"),
    "a path twice": (report(health=[pb.PathHealth(name="wifi")] * 2), "one path's health twice"),
    "paths": (report(health=[pb.PathHealth(name=each) for each in MANY[:65]]), "health"),
    "windows": (
        report(health=[pb.PathHealth(name="wifi", windows=[pb.HealthWindow()] * 9)]),
        "9 windows of PathHealth: expected at most 8",
    ),
    "more lost than sent": (report(health=[pb.PathHealth(name="wifi", sent=1, lost=2)]), "wifi"),
    "more lost there and back": (report(health=[PARTS]), "wifi"),
    "more lost in a window": (report(health=[pb.PathHealth(name="wifi", windows=[LOST])]), "wifi"),
    "packets without their times": (
        pb.FromAgent(probe_report=pb.ProbeReport(trains=[0])),
        "1, 0, 0, 0, 0, 0 values of a probe",
    ),
    "packets of a probe": (probed(**columns(20_001)), "20001 packets of a probe: expected at most 20000"),
    "a transport": (probed("ip\x1b"), "probed over 'ip ': expected udp or udp6"),
    "a late packet": (probed(returned_ns=[HOUR_NS + 1]), "3600000000001 ns since the probe began"),
    "a long packet": (probed(lengths=[65_508]), "65508 bytes of UDP payload"),
    "trains": (probed(trains=[1 << 31]), "2147483648 trains"),
    "relays": (interception(relays=[pb.RelayReached(name=each) for each in MANY[:65]]), "65 relays"),
    "a relay twice": (interception(relays=[pb.RelayReached(name="oslo")] * 2), "one relay twice"),
    "terminals": (
        interception(terminals=[pb.TerminalInterception(name=each) for each in MANY]),
        "251 terminals",
    ),
    "a terminal twice": (
        interception(terminals=[pb.TerminalInterception(name="tv")] * 2),
        "one intercepted terminal twice",
    ),
    "too many pending destinations": (
        interception(pending=list(pending().report.interception.pending) * 65),
        "65 wanted destinations",
    ),
    "no prefix": (pending(prefix="45.0.30/24"), "an address and its network"),
    "a prefix of another length": (pending(prefix="45.0.0.0/16"), "a /24 or /48"),
    "bits behind the prefix": (pending(prefix="45.0.30.9/24"), "an address and its network"),
    "an address elsewhere": (pending(address="45.0.31.9"), "a /24 or /48"),
    "an address of another family": (pending(address="2a00::1"), "a /24 or /48"),
    "no port": (pending(port=0), "1 to 65535"),
    "distances": (measured(*[pb.Distance()] * 65), "65 addresses"),
    "a round trip beyond any timeout": (measured(pb.Distance(rtt_us=60_000_001)), "a round trip of 60000001 us"),
    "routers": (measured(pb.Distance(routers=[pb.Router()] * 31)), "31 routers"),
    "a router that is none": (measured(pb.Distance(routers=[pb.Router(address="x")])), "'x' for an address"),
}


@pytest.mark.parametrize(("word", "said"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_value_is_refused_with_a_sentence(word: pb.FromAgent, said: str) -> None:
    with pytest.raises(Refused, match=said) as refused:
        decoded(word.SerializeToString(), Role.GATEWAY)
    assert str(refused.value).isprintable() and len(str(refused.value)) < 300


def test_unknown_time_is_none_and_not_zero() -> None:
    word = pb.ProbeReport(
        transport="udp", trains=[0], lengths=[64], sent_ns=[1], received_ns=[2], answered_ns=[0], returned_ns=[0]
    )
    assert decode.probe_report(1, word).packets == (ProbePacket(0, 64, 0, 1, None, None),)


def test_path_health_is_reported() -> None:
    window = pb.HealthWindow(seconds=10, sent=100, lost=3, lost_there=1, lost_back=1, rtt_median_us=20_000)
    path = pb.PathHealth(name="wifi", sent=600, lost=9, lost_there=4, lost_back=5, late=2, windows=[window])
    told = decode.reported(
        1, Role.GATEWAY, pb.Report(health=[path], answering=pb.Answering(reason="8620 is taken", probes=1, too_many=2))
    )
    (one,) = told.health
    assert isinstance(one, PathHealth) and (one.sent, one.lost, one.lost_there, one.late) == (600, 9, 4, 2)
    assert one.windows[0].rtt_median_us == 20_000 and one.windows[0].seconds == 10
    assert told.answering is not None and told.answering.reason == "8620 is taken"
    nothing = decode.reported(1, Role.GATEWAY, pb.Report())
    assert nothing.answering is None and nothing.health == ()


def test_destination_is_ignored_unless_relays_may_reach_it() -> None:
    near = {"10.0.0.0/24": "10.0.0.1", "127.0.0.0/24": "127.0.0.1", "fe80::/48": "fe80::1", "224.0.0.0/24": "224.0.0.5"}
    for prefix, address in near.items():
        assert decode.interception_report(pending(prefix, address).report.interception).pending == ()
    assert decode.interception_report(pending("2a00:1::/48", "2A00:1::1").report.interception).pending == (
        PendingDestination("2a00:1::/48", "2a00:1::1", 443),
    )


def test_busy_share_and_reason_are_bounded() -> None:
    told = decode.relay_report(pb.RelayReport(busy_percent=2**32 - 1, reason="\x1b" * 5000))
    assert told.busy_percent == 100 and told.reason.isprintable() and len(told.reason) <= 400


def test_result_is_kept_whole_and_an_overlong_text_is_cut() -> None:
    sentence = "10.1.0.1:40000 to 10.1.0.2:80, backup 10.2.0.1:40001 to 10.2.0.2:80; "
    done = sentence * 20
    assert decode.resulted(1, pb.Result(directive=1, answer=done)).answer == done
    assert decode.fired(1, pb.FailoverFired(name="client", answer=done)).answer == done
    cut = decode.resulted(1, pb.Result(directive=1, answer=sentence * 100)).answer
    assert cut.endswith(" …") and set(cut.split()) == {*sentence.split(), "…"}
    version = pb.FromAgent(hello=pb.Hello(protocol=1, role=1, version="1" * 1000)).hello
    assert decode.opened(1, "phone", "192.0.2.1:5", version, PHONE).version == "1" * 398 + " …"
