# SPDX-License-Identifier: Apache-2.0
"""Tables 3 and 4 of paper 002 hold in real captures: the client's segments are copied, and a forged one is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from experiments.capture import measure, plan
from experiments.capture.measure import Conversation
from experiments.capture.plan import AFTER, BEFORE
from experiments.capture.report import Claim, claims
from lab.processes.controller import OPENFLOW, controlled, pin_mode
from lab.stage.stage import Stage, raised
from topologies.paper import SERVER, PaperTopo

ATTEMPTS = 5  # TCP retransmits while the machine stalls, and the claims count each copy


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Conversation]:
    """Return one conversation in mode bicast, and one in mode off."""
    found = {}
    with controlled(plan.FILE) as controller, raised(PaperTopo(), controller=OPENFLOW) as net:
        controller.await_steady()
        for mode in ("bicast", "off"):
            pin_mode(controller.client, mode)
            for _ in range(ATTEMPTS):
                before = retransmitted(net)
                found[mode] = measure.observe(net, tmp_path_factory.mktemp(mode), measure.by_endpoints)
                back_to_wifi(net)
                if retransmitted(net) == before:
                    break
    return found


def retransmitted(net: Stage) -> list[int]:
    """Return the segments that each end has sent again."""
    words = ("nstat", "--ignore", "--zeros", "--json", "TcpRetransSegs")
    told = [json.loads(net.machine(name).run(*words).stdout) for name in ("client", "server")]
    return [one["kernel"]["TcpRetransSegs"] for one in told]


def back_to_wifi(net: Stage) -> None:
    for number, flag in ((plan.WIFI_ENDPOINT, "nobackup"), (plan.LTE_ENDPOINT, "backup")):
        net.machine("client").run("ip", "mptcp", "endpoint", "change", "id", number, flag)


@pytest.fixture
def bicast(seen: dict[str, Conversation]) -> Conversation:
    return seen["bicast"]


def broken(conversation: Conversation) -> Iterator[Claim]:
    return (claim for claim in claims(conversation) if not claim.holds)


def test_each_client_segment_is_copied_as_in_the_paper(bicast: Conversation) -> None:
    assert [f"{claim.sentence}: {claim.counter_examples}" for claim in broken(bicast)] == []
    assert len(bicast.answers) == 2 * plan.WORDS


def test_the_active_subflow_is_switched_in_the_middle(bicast: Conversation) -> None:
    sources = [each.source for each in bicast.answers]
    assert sources == [BEFORE] * plan.WORDS + [AFTER] * plan.WORDS


def test_claims_about_copies_fail_without_bicast(seen: dict[str, Conversation]) -> None:
    sentences = [claim.sentence for claim in broken(seen["off"])]
    assert any("reaches the server twice" in each for each in sentences)
    assert any("two acknowledgements" in each for each in sentences)
    assert not any("sees each segment of the server once" in each for each in sentences)


def test_a_copy_with_another_sequence_number_is_no_copy(bicast: Conversation) -> None:
    first = next(each for each in bicast.server if each.payload_bytes and each.destination == SERVER)
    place = list(bicast.server).index(first)
    other = replace(first, raw_sequence=(first.raw_sequence + 1000) % 2**32)
    forged = replace(bicast, server=[*bicast.server[:place], other, *bicast.server[place + 1 :]])
    (claim,) = broken(forged)
    assert "twice" in claim.sentence
    assert claim.counter_examples == (f"{first}: 1 times",)
