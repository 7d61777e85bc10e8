# SPDX-License-Identifier: Apache-2.0
"""`bandwidth` estimates the bandwidth of a path from a file of the probe."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cli import REFUSED
from cli.__main__ import main
from controller.policy.bandwidth.estimators import Samples
from tests.cli.conftest import Printed
from tests.controller.policy.bandwidth.test_estimators import HUNDRED, train

Captured = pytest.CaptureFixture[str]
START = 1_790_000_000_000_000_000


def probe_file(samples: Samples, trains: int = 0) -> Iterator[str]:
    yield "# bicast probe 1 stamps=software transport=udp"
    yield "train,length,sent_ns,received_ns,answered_ns,returned_ns"
    for length, *times in zip(
        samples.lengths, samples.sent, samples.received, samples.answered, samples.returned, strict=True
    ):
        yield ",".join(map(str, (0, int(length), *(_ns(at) for at in times))))
    for number in range(1, trains + 1):
        for arrived in train(100e6, seed=number)[0]:
            yield f"{number},1440,{START},{_ns(arrived)},,"


def _ns(moment_s: float) -> int:
    return START + round(moment_s * 1e9)


def file(tmp_path: Path, lines: Sequence[str]) -> str:
    place = tmp_path / "path.csv"
    place.write_text("\n".join(lines) + "\n", encoding="ascii")
    return str(place)


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return list(probe_file(HUNDRED.samples(0), trains=20))


def test_bandwidth_prints_each_estimate_and_the_combined_one(
    tmp_path: Path, lines: list[str], printed: Printed
) -> None:
    place = file(tmp_path, lines)
    told = printed("bandwidth", place).splitlines()
    assert [line.split("  ")[0] for line in told[:3]] == ["one packet", "trains", "the path"]
    assert "9000 packets sent singly, 0 lost" in told[3]
    assert "--alpha" in told[4]
    assert told[5].startswith("the far end's clock runs +3")
    found = json.loads(printed("bandwidth", place, "--json", "--alpha", "0.35"))
    assert found["path"]["bps"] == pytest.approx(100e6, rel=0.01)
    assert found["one_packet"]["least_bps"] < 100e6 < found["one_packet"]["most_bps"]


def test_bandwidth_of_a_downlink_inverts_the_clock_drift(tmp_path: Path, lines: list[str], printed: Printed) -> None:
    down = [lines[0] + " direction=down", lines[1], *(",".join([*line.split(",")[:4], "", ""]) for line in lines[2:])]
    place = file(tmp_path, down)
    told = printed("bandwidth", place).splitlines()
    assert told[3] == "from the far end to here"
    assert any(line.startswith("the far end's clock runs -3") for line in told)
    found = json.loads(printed("bandwidth", place, "--json", "--alpha", "0.35"))
    assert (found["direction"], found["path"]["bps"]) == ("down", pytest.approx(100e6, rel=0.01))


def test_bandwidth_calibrates_alpha_from_a_known_link_rate(tmp_path: Path, lines: list[str], printed: Printed) -> None:
    found = json.loads(printed("bandwidth", file(tmp_path, lines), "--link", "100", "--json"))
    assert found["alpha_ns_per_byte"] == pytest.approx(0.35, abs=0.1)


def test_bandwidth_gives_the_reason_for_an_unknown_value(
    tmp_path: Path, lines: list[str], capsys: Captured, printed: Printed
) -> None:
    told = printed("bandwidth", file(tmp_path, lines[:50]))
    assert "one packet   not known: 48 packets arrived, expected at least 60" in told
    assert "trains       not known: none were sent" in told
    assert "the path     not known: nothing was measured" in told
    assert main(["bandwidth", file(tmp_path, lines[:50]), "--link", "100"]) == REFUSED
    assert "alpha cannot be estimated: 48 packets arrived" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("nonsense", "found 'nonsense', expected train,length"),
        (None, "cannot be read: No such file"),
        ("\xff", "ascii"),
    ],
)
def test_a_bad_probe_file_is_refused_in_one_sentence(
    tmp_path: Path, content: str | None, said: str, capsys: Captured
) -> None:
    place = tmp_path / "path.csv"
    if content is not None:
        place.write_text(content, encoding="latin-1")
    assert main(["bandwidth", str(place)]) == REFUSED
    assert said in capsys.readouterr().err
