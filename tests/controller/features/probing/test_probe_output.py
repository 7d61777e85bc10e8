# SPDX-License-Identifier: Apache-2.0
"""The output of the probe is read whole, or refused with the invalid line."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from controller.features.probing.probe_evaluation import Unreadable, read

START = 1_790_000_000_123_456_789  # of 2026, in ns: a double is exact to 256 ns
HEAD = ("# bicast probe 1 stamps=software transport=udp", "train,length,sent_ns,received_ns,answered_ns,returned_ns")


def written(*rows: str) -> str:
    return "\n".join([*HEAD, *rows])


def test_output_is_read_with_nanosecond_precision() -> None:
    later = START + 1_000_000
    probed = read(
        written(
            f"0,16,{START},{START + 2001},{START + 2005},{START + 4000}",
            f"0,1440,{later},,,",
            f"0,32,{later + 1},{later + 2},,",
            f"0,48,{later + 2},{later + 1},,",
            f"2,1440,{later},{later + 9},,",
            f"2,1440,{later},{later + 5},,",
            f"2,1440,{later},,,",
        )
    )
    assert (probed.sent, probed.lost, probed.reordered) == (4, 1, 1)
    assert (probed.longest_came, probed.longer_lost, probed.over) == (48, 1, "udp")
    assert list(probed.samples.lengths) == [16, 32, 48]
    assert probed.samples.received[0] == pytest.approx(2001e-9, abs=1e-12)
    assert probed.samples.answered[0] - probed.samples.received[0] == pytest.approx(4e-9, abs=1e-12)
    assert math.isnan(probed.samples.returned[1])
    ((moments, lengths),) = probed.trains
    assert (list(moments), list(lengths)) == ([0, pytest.approx(4e-9)], [1482, 1482])


def test_packet_answered_before_its_kernel_stamp_is_not_lost() -> None:
    probed = read(written(f"0,16,{START},,,{START + 9}", f"0,32,{START},{START + 1},,", f"0,32,{START},,,"))
    assert (probed.sent, probed.lost, list(probed.samples.lengths)) == (3, 1, [32])


def test_ipv6_adds_longer_headers() -> None:
    rows = [f"0,16,{START},{START + 1},,", *(f"1,1440,{START},{START + at},," for at in (5, 9))]
    six = read(written(*rows).replace("transport=udp", "transport=udp6"))
    assert (six.over, list(six.trains[0][1])) == ("udp6", [1502, 1502])


def test_downstream_packets_are_sorted_by_their_sending_time() -> None:
    text = written(
        f"0,640,{START + 200},{START + 900},,",  # its request was overtaken
        f"0,64,{START + 100},{START + 500},,",
        f"0,1440,{START + 300},,,",  # lost on its way here
        "0,1440,,,,",  # or its request was lost
        f"0,128,,{START + 800},,",  # the report of its sending time was lost
        f"0,96,{START + 400},{START + 700},,",
        f"1,640,,{START + 5000},,",
        f"1,640,{START + 4100},{START + 6000},,",
    )
    probed = read(text.replace("udp", "udp direction=down"))
    assert (probed.down, probed.sent, probed.lost, probed.longest_came, probed.longer_lost) == (True, 6, 2, 640, 2)
    assert list(probed.samples.lengths) == [64, 640, 96]
    assert probed.reordered == 1
    ((moments, _),) = probed.trains
    assert list(moments) == [0, pytest.approx(1e-6)]
    up = read(text)
    assert (up.down, list(up.samples.lengths)) == (False, [640, 64, 96])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "found nothing, expected train,length,"),
        (written(f"0,16,{START},,,"), "1 packet sent one by one, none of which arrived"),
        (written("0,16,1,2,3"), "line 3: found '0,16,1,2,3', expected 6 values"),
        (written("0,16,-1,2,3,4"), "line 3: found '0,16,-1,2,3,4', expected whole numbers up to"),
        (written("0,99999999,1,2,3,4"), "expected whole numbers up to 65507"),
        (written(f"0,16,{1 << 70},2,3,4"), "expected whole numbers up to"),
    ],
)
def test_invalid_output_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(Unreadable) as refused:
        read(text)
    assert said in str(refused.value)


@given(some.text() | some.lists(some.text("0123456789,-e\n\"' ")).map(lambda rows: written(*rows)))
def test_random_output_is_read_or_refused(text: str) -> None:
    try:
        read(text)
    except Unreadable as refused:
        assert "expected" in str(refused)
