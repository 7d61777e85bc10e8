# SPDX-License-Identifier: Apache-2.0
"""Any bytes from an agent decode to a valid event or are refused with a sentence."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from api import agent_pb2 as pb
from controller.edges.agentlink import decode
from controller.edges.agentlink.decode import LONGEST_ACCOUNT
from controller.edges.trust.refusals import Refused
from controller.features.caps.holder import MOST_PORTS
from controller.protocol.enrolment import Binding
from controller.protocol.reports import MOST_SUBFLOWS, Role
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
    pb.FromAgent(result=pb.Result(directive=1, said="a\u2028b" * 1000)),
    pb.FromAgent(fired=pb.Fired(name="\x1b[2J", said="")),
    pb.FromAgent(
        probed=pb.Probed(
            directive=1, reason="gone\x1b", transport="udp", trains=[0, 1], lengths=[16, 1440], sent_ns=[1, 2],
            received_ns=[9, 0], answered_ns=[0, 0], heard_ns=[0, 0],
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
            relaying=pb.Relaying(reason="\u2028", busy_percent=7, congestion="bbr"),
            taking=pb.Taking(
                relays=[pb.RelayReached(name="oslo", reason="\x1b")], terminals=[pb.TerminalTaken(name="tv")],
                sought=[pb.Sought(prefix="45.0.30.0/24", address="45.0.30.9", port=443)],
            ),
        )
    ),
    pb.FromAgent(walked=pb.Walked(ways=[pb.Way(address="45.0.30.9", routers=[pb.Router(address="::1")])])),
]  # fmt: skip


def decoded(raw: bytes) -> object:
    """Return the event for the core."""
    word = decode.message(raw)
    match word.WhichOneof("word"):
        case "hello":
            return decode.opened(1, "phone", "192.0.2.1:5", word.hello, Binding(Role.RELAY))
        case "report":
            return decode.reported(1, Role.TERMINAL, word.report)
        case "result":
            return decode.resulted(1, word.result)
        case "fired":
            return decode.fired(1, word.fired)
        case "probed":
            return decode.probed(1, word.probed)
        case "walked":
            return decode.walked(1, word.walked)
    raise AssertionError("an unknown message was accepted")


def decoded_or_refused(raw: bytes) -> None:
    try:
        event = decoded(raw)
    except Refused as refused:
        assert len(str(refused)) < 1000 and str(refused).isprintable()
    else:
        texts = [each for name in ("version", "said", "name") if (each := getattr(event, name, "")) is not None]
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


@pytest.mark.parametrize(
    "connections",
    [[EMPTY] * (decode.MOST_OF_A_REPORT + 1), [pb.Connection(subflows=[pb.Subflow()] * (decode.MOST_OF_A_REPORT + 1))]],
    ids=["connections", "subflows"],
)
def test_oversized_report_is_refused_before_it_is_decoded(
    connections: list[pb.Connection],
) -> None:
    with pytest.raises(Refused, match="reports 65537 connections or subflows: expected at most 65536"):
        decode.reported(1, Role.RELAY, pb.Report(connections=connections))


def test_report_as_large_as_agents_can_make_is_accepted() -> None:
    """It takes half of the bytes of a message, with the shortest possible subflows."""
    shortest = pb.Subflow(
        local_address="1.2.3.4", local_port=200, remote_address="1.2.3.5", remote_port=200, cwnd_segments=1,
        mss_bytes=200, segments_sent=1,
    )  # fmt: skip
    one = pb.FromAgent(report=pb.Report(connections=[pb.Connection(subflows=[shortest])])).ByteSize() - 2
    assert decode.MOST_BYTES / 2 / one < decode.MOST_OF_A_REPORT


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
def test_terminal_report_is_cut_at_the_subflow_limit(
    connections: list[pb.Connection],
) -> None:
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
    with pytest.raises(Refused, match="more than 0 connections through a terminal"):
        decode.reported(1, Role.TERMINAL, many)
    many.capping.passing.append(pb.Passing(terminal_address="nowhere"))
    with pytest.raises(Refused, match="more than 4096 connections through a gateway"):
        decode.reported(1, Role.GATEWAY, many)


def test_gateway_without_any_program_may_report_each_port() -> None:
    missing = [pb.Missing(port=f"gw-{number}", reason="gone") for number in range(MOST_PORTS)]
    report = pb.Report(capping=pb.Capping(missing=[*missing, pb.Missing(port="all", reason="unreadable")]))
    capping = decode.reported(1, Role.GATEWAY, report).capping
    assert capping is not None and len(capping.missing) == MOST_PORTS + 1
    report.capping.missing.append(pb.Missing(port="one more"))
    with pytest.raises(Refused, match="or 257 ports"):
        decode.reported(1, Role.GATEWAY, report)


@pytest.mark.parametrize(
    "told_of",
    [
        pb.Elimination(paths=[pb.PathCopies(name="wifi")] * 2),
        pb.Elimination(paths=[pb.PathCopies(name=str(number)) for number in range(65)]),
        pb.Elimination(paths=[pb.PathCopies(name="wifi", skew=range(65))]),
        pb.Elimination(missing=[pb.Missing()] * 65),
    ],
    ids=["a path twice", "paths", "skews", "ports"],
)
def test_copy_counters_beyond_a_site_are_refused(told_of: pb.Elimination) -> None:
    with pytest.raises(Refused, match="copies"):
        decode.reported(1, Role.GATEWAY, pb.Report(elimination=told_of))


def test_result_is_kept_whole_and_an_overlong_text_is_cut() -> None:
    sentence = "10.1.0.1:40000 to 10.1.0.2:80, backup 10.2.0.1:40001 to 10.2.0.2:80; "
    done = sentence * 20
    assert decode.resulted(1, pb.Result(directive=1, said=done)).answer == done
    assert decode.fired(1, pb.Fired(name="client", said=done)).answer == done
    cut = decode.resulted(1, pb.Result(directive=1, said=sentence * 100)).answer
    assert cut.endswith(" …") and set(cut.split()) == {*sentence.split(), "…"}
    version = pb.FromAgent(hello=pb.Hello(protocol=1, role=1, version="1" * 1000)).hello
    assert decode.opened(1, "phone", "192.0.2.1:5", version, PHONE).version == "1" * 398 + " …"
