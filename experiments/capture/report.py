# SPDX-License-Identifier: Apache-2.0
"""Check paper 002's section 3.3; print tables 3 and 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.capture.measure import Conversation, Segment, acknowledges
from experiments.capture.plan import AFTER, BEFORE, DIRECTORY


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


def text(seen: Conversation, found: list[Claim]) -> str:
    before, after = seen.shown
    parts = []
    for number, (name, segments) in enumerate((("server", seen.server), ("client", seen.client)), 3):
        lines = [
            f"What the {name} saw (the paper's table {number}):",
            *map(str, seen.exchange(segments, before)),
            "~ the active subflow is switched ~",
            *map(str, seen.exchange(segments, after)),
        ]
        parts.append("\n".join(lines))
    verdicts = []
    for claim in found:
        verdicts.append(f"{'HOLDS       ' if claim.holds else 'DOES NOT HOLD'}  {claim.sentence}")
        verdicts += [f"               {each}" for each in claim.counter_examples]
    checked = f"Of {len(seen.answers)} client segments (n = {len(seen.answers)}):"
    return "\n\n".join([*parts, "\n".join([checked, *verdicts]), f"The captures: {DIRECTORY}"])


def document(seen: Conversation, found: list[Claim]) -> dict[str, object]:
    return {
        "experiment": "capture",
        "client_segments": len(seen.answers),
        "claims": [
            {"claim": each.sentence, "holds": each.holds, "counter_examples": each.counter_examples} for each in found
        ],
        "tables": {
            name: [[str(each) for each in seen.exchange(segments, number)] for number in seen.shown]
            for name, segments in (("server", seen.server), ("client", seen.client))
        },
        "captures": str(DIRECTORY),
    }
