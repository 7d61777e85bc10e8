# SPDX-License-Identifier: Apache-2.0
"""Reports give evidence of uplinks: the uplink of each loss, stalls, and the start of each count."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.config import Mode
from controller.model.in_force import InForce
from controller.model.overrides import Overrides
from controller.policy.paths.evidence import SubflowFlags, Weighed, weigh
from controller.policy.paths.flows import FlowTable
from controller.policy.paths.health import UplinkReading
from controller.policy.paths.uplinks import AddressOwner, TerminalUplinks, homes, way
from controller.protocol.reports import Connection, Subflow
from tests.controller import relayed_site, sites

WIFI, LTE, LAN, FAR = "192.168.110.3", "192.168.210.3", "10.1.0.7", "203.0.113.5"
NEW = Subflow(WIFI, 1000, FAR, 443, False, False, 20_000, 20_000, 10, 0, 0, 0, 0, 0, 0)

SITE = sites.paper_site()
HOMES = {address: found[0] for address, found in homes((SITE,)).items()}


def at_terminal(local: str = WIFI, **more: object) -> Subflow:
    return replace(NEW, local_address=local, **more)  # type: ignore[arg-type]


def at_server(remote: str = WIFI, **more: object) -> Subflow:
    return replace(NEW, local_address=FAR, remote_address=remote, **more)  # type: ignore[arg-type]


class Reports:
    """Reports of one agent, one a second."""

    def __init__(self, mode: Mode, active: str = "wifi", at_terminal: bool = True) -> None:
        self._in_force = InForce(Overrides({"client": mode, "phone": mode}, {"client": active, "phone": active}))
        self._at_terminal = at_terminal
        self._flows = FlowTable()

    def tell(self, *subflows: Subflow, interval_ms: int = 1000) -> Weighed:
        def way_of(home: AddressOwner) -> TerminalUplinks:
            return way(home.site, home.terminal, self._in_force)

        told = (Connection(7, not self._at_terminal, subflows),)
        flows = self._flows.on_report(told, interval_ms)
        return weigh(flows, interval_ms, self._at_terminal, HOMES.get, way_of)


LOST = {"segments_sent": 100, "retransmits": 20, "bytes_acked": 90_000}
COUNTED = UplinkReading(100, 20, 90_000, 0)


@pytest.mark.parametrize(
    ("mode", "active", "blamed"),
    [(Mode.OFF, "lte", "wifi"), (Mode.SINGLE, "lte", "lte"), (Mode.SINGLE, "wifi", "wifi"), (Mode.BICAST, "lte", None)],
)
def test_loss_at_a_terminal_counts_for_the_uplink_of_its_mode(mode: Mode, active: str, blamed: str | None) -> None:
    reports = Reports(mode, active)
    reports.tell(at_terminal())
    readings = reports.tell(at_terminal(**LOST)).readings
    counted = {uplink: reading for (_, uplink), reading in readings.items() if reading.segments}
    assert counted == ({blamed: COUNTED} if blamed else {})


@pytest.mark.parametrize(
    ("cwnd_segments", "retransmits", "unslowed"),
    [(10, 50, 0), (15, 10, 0), (16, 10, 90_000), (40, 0, 0), (200, 0, 90_000)],
)
def test_sender_with_four_times_renos_window_is_unslowed(cwnd_segments: int, retransmits: int, unslowed: int) -> None:
    reports = Reports(Mode.SINGLE)
    reports.tell(at_terminal())
    sent = at_terminal(segments_sent=100, retransmits=retransmits, bytes_acked=90_000, cwnd_segments=cwnd_segments)
    assert reports.tell(sent).readings[("client", "wifi")].unslowed_bytes == unslowed


@pytest.mark.parametrize("mode", list(Mode))
def test_loss_at_a_server_counts_for_the_return_uplink(mode: Mode) -> None:
    reports = Reports(mode, "lte", at_terminal=False)
    reports.tell(at_server(WIFI), at_server(LTE))
    readings = reports.tell(at_server(WIFI, **LOST), at_server(LTE, segments_sent=50, bytes_acked=70_000)).readings
    assert readings[("client", "wifi")] == COUNTED
    assert readings[("client", "lte")] == UplinkReading(50, 0, 70_000, 0)


def test_terminal_with_one_uplink_blames_the_active_one() -> None:
    for reports, subflow in ((Reports(Mode.SINGLE, "lte"), at_terminal), (Reports(Mode.OFF, "lte", False), at_server)):
        reports.tell(subflow(LAN))
        assert reports.tell(subflow(LAN, **LOST)).readings == {("phone", "lte"): COUNTED}


def test_traffic_inside_the_site_is_no_evidence() -> None:
    reports = Reports(Mode.SINGLE)
    reports.tell(at_terminal(WIFI, remote_address=LAN))
    assert not reports.tell(at_terminal(WIFI, remote_address=LAN, **LOST)).readings


def test_first_report_is_a_base_and_new_subflows_start_at_zero() -> None:
    reports = Reports(Mode.OFF)
    assert not reports.tell(at_terminal(**LOST)).readings
    weighed = reports.tell(at_terminal(**LOST), at_terminal(local_port=1001, segments_sent=7, bytes_acked=9000))
    assert weighed.readings == {("client", "wifi"): UplinkReading(7, 0, 9000, 0)}
    reused = reports.tell(at_terminal(**LOST), at_terminal(local_port=1001, segments_sent=5, bytes_acked=800))
    assert reused.readings == {("client", "wifi"): UplinkReading(5, 0, 800, 0)}


WAITS = {"in_flight_segments": 3, "bytes_acked": 5000}


@pytest.mark.parametrize(("srtt_us", "counts"), [(20_000, True), (80_000, True), (90_000, False)])
def test_loss_in_the_senders_own_queue_is_no_uplink_loss(srtt_us: int, counts: bool) -> None:
    reports = Reports(Mode.OFF)
    reports.tell(at_terminal())
    readings = reports.tell(at_terminal(**LOST, srtt_us=srtt_us)).readings
    assert readings == {("client", "wifi"): COUNTED if counts else UplinkReading(0, 0, 90_000, 0)}


def test_stall_adds_up_at_ten_reports_a_second() -> None:
    reports = Reports(Mode.OFF, at_terminal=False)
    told = [reports.tell(at_server(**WAITS, since_ack_ms=100 * at), interval_ms=100).readings for at in range(1, 7)]
    assert [each[("client", "wifi")].stalled_ms for each in told[1:]] == [100, 200, 300, 400, 500]


def test_sender_after_a_long_idle_time_is_no_stall() -> None:
    reports = Reports(Mode.OFF, at_terminal=False)
    reports.tell(at_server(bytes_acked=5000, since_ack_ms=9000))
    assert reports.tell(at_server(**WAITS, since_ack_ms=10_000)).readings[("client", "wifi")].stalled_ms == 0


def test_stall_beside_a_progressing_subflow_is_ignored() -> None:
    reports = Reports(Mode.OFF, at_terminal=False)
    other = at_server(remote_port=2000)
    reports.tell(at_server(**WAITS), other)
    readings = reports.tell(at_server(**WAITS, since_ack_ms=1500), replace(other, bytes_acked=1400)).readings
    assert readings[("client", "wifi")].stalled_ms == 0


@pytest.mark.parametrize(("delivers", "accused"), [(True, "wifi"), (False, "lte")])
def test_stall_in_single_mode_blames_the_active_path(delivers: bool, accused: str) -> None:
    reports = Reports(Mode.SINGLE, "lte", at_terminal=False)
    reports.tell(at_server(WIFI, **WAITS), at_server(LTE))
    acked = 10_000 if delivers else 0
    readings = reports.tell(at_server(WIFI, **WAITS, since_ack_ms=1500), at_server(LTE, bytes_acked=acked)).readings
    stalled = {uplink for (_, uplink), reading in readings.items() if reading.stalled_ms}
    assert stalled == {accused}


def test_connections_list_who_set_backup_and_skip_plain_tcp() -> None:
    weighed = Reports(Mode.SINGLE, "wifi", at_terminal=False).tell(at_server(WIFI), at_server(LTE, backup_by_peer=True))
    assert weighed.standings["client"].connections == {
        7: [SubflowFlags("wifi", False, False), SubflowFlags("lte", False, True)]
    }
    assert not weighed.serves_strangers
    assert Reports(Mode.SINGLE, "wifi", at_terminal=False).tell(at_server("198.51.100.9")).serves_strangers
    plain = (Connection(0, True, (at_server(),)),)
    flows = FlowTable().on_report(plain, 0)
    assert not weigh(flows, 0, False, HOMES.get, lambda home: way(SITE, home.terminal, InForce())).standings


def test_traffic_between_relays_is_no_path_of_a_terminal() -> None:
    (site,) = relayed_site.config().sites
    homes_of = {address: found[0] for address, found in homes((site,)).items()}

    def told(at_terminal: bool, *subflows: Subflow) -> Weighed:
        connections = (Connection(7, not at_terminal, subflows),)
        table = FlowTable()
        table.on_report((), 1000)
        flows = table.on_report(connections, 1000)
        return weigh(flows, 1000, at_terminal, homes_of.get, lambda home: way(site, home.terminal, InForce()))

    by_itself, local = SubflowFlags("wifi", False, False), "10.97.1.3"
    at_gateway = told(True, at_terminal(local), at_terminal(local, local_port=1001, remote_port=8701, **LOST))
    at_relay = told(False, at_server(local), at_server("198.51.100.9", **LOST))
    for weighed in (at_gateway, at_relay):
        assert weighed.standings["client"].connections == {7: [by_itself]} and not weighed.serves_strangers
        assert not any(reading.retransmits for reading in weighed.readings.values())


COUNTERS = st.integers(0, 2**40)
SUBFLOWS = st.builds(
    replace,
    st.sampled_from([at_terminal(WIFI), at_terminal(LTE), at_server(WIFI), at_server(LAN), at_terminal("garbage")]),
    segments_sent=COUNTERS,
    retransmits=COUNTERS,
    bytes_acked=COUNTERS,
    in_flight_segments=st.integers(0, 100),
    since_ack_ms=st.integers(0, 2**32 - 1),
)


@given(st.lists(st.lists(SUBFLOWS, max_size=6), max_size=5), st.sampled_from(Mode), st.booleans())
def test_readings_are_never_negative(told: list[list[Subflow]], mode: Mode, at_the_terminal: bool) -> None:
    reports = Reports(mode, "lte", at_the_terminal)
    for subflows in told:
        for (terminal, uplink), reading in reports.tell(*subflows).readings.items():
            assert terminal in ("client", "phone") and uplink in ("wifi", "lte")
            assert min(reading.segments, reading.retransmits, reading.acked_bytes, reading.stalled_ms) >= 0
