"""What agents report of paths that they measure. Counts that contradict each other are nobody's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from api import agent_pb2 as pb
from controller.agency import texts
from controller.agency.accounts import MOST_OF_A_KIND
from controller.measures import Answering, HealthWindow, PathHealth, Probed, ProbePacket

MOST_WINDOWS = 8
MOST_PACKETS = 20_000  # of one probe
LONGEST_BYTES = 65_507  # of UDP payload
LATEST_NS = 3600 * 10**9  # since the origin
TRANSPORTS = ("udp", "udp6")


def answering(one: pb.Answering) -> Answering:
    return Answering(texts.text(one.because), one.probes, one.health_packets, one.strangers, one.replays, one.too_many)


def health(paths: Sequence[pb.PathHealth]) -> tuple[PathHealth, ...]:
    if len(paths) > MOST_OF_A_KIND or any(len(path.windows) > MOST_WINDOWS for path in paths):
        raise texts.against(f"tells the health of more than {MOST_OF_A_KIND} paths, or {MOST_WINDOWS} windows of one")
    if len({path.name for path in paths}) < len(paths):
        raise texts.against("tells twice the health of one path")
    return tuple(map(_path, paths))


def _path(one: pb.PathHealth) -> PathHealth:
    name = texts.text(one.name)
    _check(name, one)
    return PathHealth(
        name=name,
        because=texts.text(one.because),
        sent=one.sent,
        lost=one.lost,
        lost_there=one.lost_there,
        lost_back=one.lost_back,
        late=one.late,
        windows=tuple(_window(name, window) for window in one.windows),
    )


def _window(name: str, one: pb.HealthWindow) -> HealthWindow:
    _check(name, one)
    return HealthWindow(
        seconds=one.seconds,
        sent=one.sent,
        lost=one.lost,
        lost_there=one.lost_there,
        lost_back=one.lost_back,
        reordered=one.reordered,
        rtt_least_us=one.rtt_least_us,
        rtt_median_us=one.rtt_median_us,
        rtt_p95_us=one.rtt_p95_us,
        because=texts.text(one.because),
        there_median_us=one.there_median_us,
        there_p95_us=one.there_p95_us,
        there_jitter_us=one.there_jitter_us,
        back_median_us=one.back_median_us,
        back_p95_us=one.back_p95_us,
        back_jitter_us=one.back_jitter_us,
    )


def _check(name: str, one: pb.PathHealth | pb.HealthWindow) -> None:
    if one.lost > one.sent or one.lost_there + one.lost_back > one.lost:
        lost = f"{one.lost} lost of {one.sent}, {one.lost_there} there and {one.lost_back} back"
        raise texts.against(f"tells of {name} that there were {lost}: expected no more of a part than of the whole")


def probed(session: int, word: pb.Probed) -> Probed:
    columns = (word.trains, word.lengths, word.sent_ns, word.received_ns, word.answered_ns, word.heard_ns)
    if any(len(column) != len(word.trains) for column in columns):
        counts = ", ".join(str(len(column)) for column in columns)
        raise texts.against(f"tells {counts} values of a probe's packets: expected as many of each kind")
    if len(word.trains) > MOST_PACKETS:
        raise texts.against(f"tells of {len(word.trains)} packets of a probe: expected {MOST_PACKETS} at most")
    if word.trains and word.transport not in TRANSPORTS:
        raise texts.against(f"probed over {texts.text(word.transport)!r}: expected {' or '.join(TRANSPORTS)}")
    for column, most, what in (
        (word.trains, MOST_PACKETS, "trains"),
        (word.lengths, LONGEST_BYTES, "bytes of UDP payload"),
        *((times, LATEST_NS, "ns since the probe began") for times in columns[2:]),
    ):
        if max(column, default=0) > most:
            raise texts.against(f"tells a probe's {max(column)} {what}: expected {most} at most")
    return Probed(
        session=session,
        directive=word.directive,
        because=texts.text(word.because),
        transport=word.transport if word.trains else "",
        hardware=word.hardware,
        packets=tuple(_packets(columns)),
    )


def _packets(columns: Sequence[Sequence[int]]) -> Iterator[ProbePacket]:
    for train, length, *times in zip(*columns, strict=True):
        yield ProbePacket(train, length, *(at - 1 if at else None for at in times))
