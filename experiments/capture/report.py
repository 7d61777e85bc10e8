# SPDX-License-Identifier: Apache-2.0
"""Check paper 002's section 3.3; print tables 3 and 4."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from experiments.capture.measure import Conversation, Segment, acknowledges
from experiments.capture.plan import AFTER, BEFORE, DIRECTORY
from lab.results import provenance
from lab.results.figures import Figure, keep


@dataclass(frozen=True, slots=True)
class Claim:
    sentence: str
    counter_examples: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.counter_examples


def claims(seen: Conversation) -> list[Claim]:
    answers = seen.answers
    return [
        Claim(
            f"the client answers {seen.words} words from {BEFORE} before the switch, {seen.words} from {AFTER} after",
            _differences([each.source for each in answers], seen.expected),
        ),
        Claim(
            "each client segment reaches the server twice, with identical addresses, ports and sequence number",
            _other_counts(answers, seen.server, 2),
        ),
        Claim("one of the two passes the router's Wi-Fi port", _other_counts(answers, seen.router_wifi, 1)),
        Claim("the other passes the router's LTE port", _other_counts(answers, seen.router_lte, 1)),
        Claim(
            "the client sees each segment of the server once, at the subflow that is active",
            _differences([each.destination for each in seen.words_seen()], seen.expected)
            + _other_counts(seen.words_seen(), seen.client, 1),
        ),
        Claim(
            "the client sees two acknowledgements of each of its segments but a subflow's first and last, with whose "
            "own mix those of its opening, its switching and its closing",
            _other_acknowledgements(seen, answers, 2),
        ),
    ]


def _other_acknowledgements(seen: Conversation, answers: Sequence[Segment], times: int) -> tuple[str, ...]:
    within = [*answers[1 : seen.words - 1], *answers[seen.words + 1 : -1]]
    counts = {each: sum(acknowledges(other, each) for other in seen.client) for each in within}
    return tuple(f"{each}: {count} acknowledgements" for each, count in counts.items() if count != times)


def _other_counts(these: Sequence[Segment], seen: Sequence[Segment], times: int) -> tuple[str, ...]:
    identities = [each.identity for each in seen]
    return tuple(
        f"{each}: {count} times" for each in these if (count := identities.count(each.identity)) != times
    )  # fmt: skip


def _differences(found: Sequence[str], expected: Sequence[str]) -> tuple[str, ...]:
    if len(found) != len(expected):
        return (f"{len(found)} segments where {len(expected)} were expected",)
    pairs = enumerate(zip(found, expected, strict=True), 1)
    return tuple(f"segment {number}: {here}, expected {there}" for number, (here, there) in pairs if here != there)


TABLES = {"server": 3, "client": 4}  # of the paper, by the machine that captures
HEADER = ("switched_by", "captured_at", "moment", "segment", *provenance.HEADER)
MOMENTS = ("before", "after")


def listing(seen: Conversation, machine: str) -> list[list[str]]:
    """Return what a machine saw of one exchange before the switch, and of one after it."""
    segments = seen.server if machine == "server" else seen.client
    return [[str(each) for each in seen.exchange(segments, number)] for number in seen.shown]


def text(seen: Mapping[str, Conversation]) -> str:
    parts = []
    for switcher, conversation in seen.items():
        parts.append(f"The {switcher} switches the active subflow.")
        for machine, number in TABLES.items():
            before, after = listing(conversation, machine)
            lines = (*before, "~ the active subflow is switched ~", *after)
            parts.append("\n".join([f"What the {machine} saw (the paper's table {number}):", *lines]))
        verdicts = [f"Of {len(conversation.answers)} client segments (n = {len(conversation.answers)}):"]
        for claim in claims(conversation):
            verdicts.append(f"{'HOLDS       ' if claim.holds else 'DOES NOT HOLD'}  {claim.sentence}")
            verdicts += [f"               {each}" for each in claim.counter_examples]
        parts.append("\n".join(verdicts))
    return "\n\n".join([*parts, f"The captures: {DIRECTORY}"])


def document(seen: Mapping[str, Conversation]) -> dict[str, object]:
    found = {switcher: _document(conversation) for switcher, conversation in seen.items()}
    return {"experiment": "capture", "captures": str(DIRECTORY), "switched_by": found}


def _document(seen: Conversation) -> dict[str, object]:
    found = [
        {"claim": each.sentence, "holds": each.holds, "counter_examples": each.counter_examples}
        for each in claims(seen)
    ]
    tables = {machine: listing(seen, machine) for machine in TABLES}
    return {"client_segments": len(seen.answers), "claims": found, "tables": tables}


def figures(seen: Mapping[str, Conversation]) -> Iterator[Figure]:
    """Yield how many segments contradict each claim."""
    for switcher, conversation in seen.items():
        for claim in claims(conversation):
            against, n = len(claim.counter_examples), len(conversation.answers)
            what = f"switched by the {switcher}, segments against: {claim.sentence}"
            yield Figure(what, against, "segments", n, against, against, "0", claim.holds)


def keep_rows(seen: Mapping[str, Conversation]) -> None:
    keep(list(figures(seen)), DIRECTORY, "capture")
    with (DIRECTORY / "segments.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        for (switcher, conversation), machine in product(seen.items(), TABLES):
            for moment, lines in zip(MOMENTS, listing(conversation, machine), strict=True):
                writer.writerows((switcher, machine, moment, line, *provenance.provenance()) for line in lines)
