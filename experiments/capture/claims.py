"""What paper 002's section 3.3 says of bicast, asked of four captures of one conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.capture.segments import Segment
from topologies.paper import SERVER

BEFORE, AFTER = "192.168.110.3", "192.168.210.3"  # the client's active subflow


@dataclass(frozen=True, slots=True)
class Conversation:
    """What each machine saw; the router at its port towards each uplink. `words` were exchanged before the active
    subflow was switched, and as many after."""

    words: int
    client: Sequence[Segment]
    router_wifi: Sequence[Segment]
    router_lte: Sequence[Segment]
    server: Sequence[Segment]

    @property
    def answers(self) -> list[Segment]:
        """What the client sent with something in it."""
        return [each for each in self.client if _answer(each)]

    @property
    def expected(self) -> list[str]:
        return [BEFORE] * self.words + [AFTER] * self.words

    def words_seen(self) -> list[Segment]:
        """The server's, at the client."""
        return [each for each in self.client if _word(each)]

    @property
    def shown(self) -> tuple[int, int]:
        """The numbers of two exchanges in the midst, one before the switch and one after."""
        return (self.words - 2, 2 * self.words - 2)

    def exchange(self, seen: Sequence[Segment], number: int) -> list[Segment]:
        """One word, its answers and their acknowledgements, in the order in which they were seen."""
        words, answers = self.words_seen(), self.answers
        if number >= min(len(words), len(answers)):
            return []
        word, answer = words[number], answers[number]
        return [
            each
            for each in seen
            if each.identity in (word.identity, answer.identity) or _acknowledges(each, answer)
        ]  # fmt: skip


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
            _not_so_often(answers, seen.server, 2),
        ),
        Claim("one of the two passes the router's Wi-Fi port", _not_so_often(answers, seen.router_wifi, 1)),
        Claim("the other passes the router's LTE port", _not_so_often(answers, seen.router_lte, 1)),
        Claim(
            "the client sees each segment of the server once, at the subflow that is active",
            _differences([each.destination for each in seen.words_seen()], seen.expected)
            + _not_so_often(seen.words_seen(), seen.client, 1),
        ),
        Claim(
            "the client sees two acknowledgements of each of its segments but a subflow's first and last, with whose "
            "own mix those of its opening, its switching and its closing",
            _acknowledged_otherwise(seen, answers, 2),
        ),
    ]


def _answer(segment: Segment) -> bool:
    return segment.destination == SERVER and segment.payload_bytes > 0


def _word(segment: Segment) -> bool:
    return segment.source == SERVER and segment.payload_bytes > 0


def _acknowledges(segment: Segment, answer: Segment) -> bool:
    """A segment of the server's that says this and nothing else."""
    back = (segment.source, segment.source_port, segment.destination, segment.destination_port)
    there = (answer.destination, answer.destination_port, answer.source, answer.source_port)
    nothing_else = segment.payload_bytes == 0 and not segment.ends
    return back == there and nothing_else and segment.acknowledged == answer.next_sequence


def _acknowledged_otherwise(seen: Conversation, answers: Sequence[Segment], times: int) -> tuple[str, ...]:
    within = [*answers[1 : seen.words - 1], *answers[seen.words + 1 : -1]]
    counts = {each: sum(_acknowledges(other, each) for other in seen.client) for each in within}
    return tuple(f"{each}: {count} acknowledgements" for each, count in counts.items() if count != times)


def _not_so_often(these: Sequence[Segment], seen: Sequence[Segment], times: int) -> tuple[str, ...]:
    identities = [each.identity for each in seen]
    return tuple(
        f"{each}: {count} times" for each in these if (count := identities.count(each.identity)) != times
    )  # fmt: skip


def _differences(found: Sequence[str], expected: Sequence[str]) -> tuple[str, ...]:
    if len(found) != len(expected):
        return (f"{len(found)} segments where {len(expected)} were expected",)
    pairs = enumerate(zip(found, expected, strict=True), 1)
    return tuple(f"segment {number}: {here}, expected {there}" for number, (here, there) in pairs if here != there)
