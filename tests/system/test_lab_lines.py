# SPDX-License-Identifier: Apache-2.0
"""The commands that the lab prints work as printed, in their order."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.invitation import GUEST
from experiments.laboratories.two_paths import UPLINKS
from lab.processes.controller import TREE
from lab.stage.isolate import MARK
from tests.system.evidence import until
from tests.system.lab_verb import raised_lab

LAST = "Also:"
ENDS_WITHIN_S = 60
DECIDED_WITHIN_S = 60.0


@pytest.fixture(scope="module")
def lines() -> Iterator[list[str]]:
    """Yield the printed commands of a running lab."""
    with raised_lab(1_000_000) as lab:
        lab.says("Wi-Fi loses nothing from now on")
        yield [line.strip() for line in lab.says(LAST) if line.startswith("  ")]


def typed(line: str) -> str:
    """Run a line like in another terminal, outside the lab and in this tree."""
    background = line.endswith("&")
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=TREE,
        env={name: value for name, value in os.environ.items() if name != MARK},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if background else subprocess.PIPE,  # a background process would keep a pipe open
        stderr=subprocess.STDOUT,
        text=True,
        timeout=ENDS_WITHIN_S,
    )
    assert done.returncode == 0, f"{line}: {done.stdout}"
    return "" if background else done.stdout


def active(listing: str) -> set[str]:
    """Return the client's addresses whose subflow of the download is no backup."""
    (download,) = json.loads(typed(f"{listing} --json"))
    return {one["local_address"] for one in download["subflows"] if not (one["backup_by_us"] or one["backup_by_peer"])}


def paths(listing: str) -> int:
    downloads = json.loads(typed(f"{listing} --json"))
    return sum(one["established"] for each in downloads for one in each["subflows"])


def received(listing: str) -> int:
    return sum(each["bytes_received"] for each in json.loads(typed(f"{listing} --json")))


@pytest.mark.timed
def test_the_printed_commands_show_switches_and_a_failover(lines: list[str]) -> None:
    download, agents, listing, to_lte, again, to_auto, why, silence, why_left, mend, _ = lines
    typed(download)
    rows = [row.split() for row in typed(agents).splitlines()[1:]]
    assert {row[0]: row[2] for row in rows} == {"client": "connected", "server": "connected"}
    until(lambda: paths(listing) == len(UPLINKS), "the download has both paths")
    assert "curl" in typed(listing) and active(listing) == {UPLINKS["wifi"]}

    said = typed(to_lte)
    assert "client has lte as its active uplink" in said and "client reached 1 connection" in said
    assert active(again) == {UPLINKS["lte"]}

    assert "client reached 1 connection" in typed(to_auto)
    # A busy machine may delay Wi-Fi until policies leave it and return.
    until(lambda: "armed at server: from wifi to lte" in typed(why), "Wi-Fi is watched", DECIDED_WITHIN_S)
    assert "somebody: from wifi to lte" in typed(why)
    until(lambda: UPLINKS["wifi"] in active(listing), "the download is on Wi-Fi")

    typed(silence)
    told = typed(why_left)
    assert "client is on lte: policies chose it" in told
    assert "an armed failover: from wifi to lte, hard (data in flight is sent again)" in told
    came = received(listing)
    until(lambda: received(listing) > came, "the download goes on")

    typed(mend)
    until(lambda: "client is on wifi" in typed(why_left), "Wi-Fi is taken again", DECIDED_WITHIN_S)


def test_the_printed_join_command_works(lines: list[str], tmp_path: Path) -> None:
    *_, join = lines
    assert GUEST in join
    typed(join.replace(GUEST, str(tmp_path)))
    rows = [row.split() for row in typed("./bicast agents").splitlines()[1:]]
    assert {row[0]: row[2] for row in rows}["guest"] == "away", "it has joined, and nobody runs it"
