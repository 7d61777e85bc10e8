# SPDX-License-Identifier: Apache-2.0
"""A core in memory: two gateways, two terminals, and overrides that are accepted or refused as in the real core."""

from __future__ import annotations

import threading
from dataclasses import replace
from ipaddress import ip_address, ip_interface

from controller.edges.runtime.version import VERSION
from controller.features.caps.view import AccessPointView, SharerView, WindowView
from controller.features.probing.view import DirectionView, MethodView, PathHealthView, PathView
from controller.features.relays.view import (
    ChoiceView,
    DestinationView,
    InterceptionView,
    LegView,
    ReachedView,
    RelayView,
    TriedView,
)
from controller.features.steering.logbook import By
from controller.model.config import EVERYBODY, CapRule, Mode
from controller.model.overrides import RelayOverride
from controller.model.relaying import Choosing, Fallback
from controller.model.settings import Endpoint, Settings
from controller.model.traffic import Address
from controller.model.uplink import Period
from controller.policy.paths.health import UplinkHealth
from controller.program.program import (
    Bucket,
    DecTtl,
    Flow,
    Group,
    GroupKind,
    Meter,
    Output,
    PacketCounters,
    PortCounters,
    Program,
    SetField,
    ToController,
    ToGroup,
    fields,
)
from controller.protocol.reports import (
    HealthWindow,
    PathCopies,
    PathManager,
    RelayReport,
    Role,
    TerminalInterception,
    TunnelEnd,
)
from controller.protocol.requests import (
    Impossible,
    NotAnswered,
    OverrideResult,
    UnknownRelay,
    UnknownUplink,
    unknown_class,
    unknown_terminal,
)
from controller.readout import snapshot as shown
from controller.switches.switch import GatewayState

SETTINGS = Settings(
    openflow=Endpoint("127.0.0.1", 0), tls=None, api=Endpoint("127.0.0.1", 0), token_file=None, state_file="unused"
)
TOKEN = "0123456789abcdef0123456789abcdef"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
HEAD = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
NEXT_HOP_MAC = "08:00:27:33:6d:a7"
PROGRAM = Program.of(
    flows=[
        Flow(0, 10, (), (ToController(),), meter=0x6200),
        Flow(1, 100, fields(in_port=3, eth_type=0x0800), (DecTtl(), ToGroup(0x62000001))),
        Flow(0, 20, fields(eth_type=0x0800), goto=1),
    ],
    groups=[
        Group(
            0x62000001,
            GroupKind.ALL,
            (Bucket((SetField("eth_dst", NEXT_HOP_MAC), Output(1))), Bucket((Output(2),))),
            "client bicast",
        )
    ],
    meters=[Meter(0x6200, 100, 20)],
)


HOPS = (("192.168.100.1", NEXT_HOP_MAC), ("fd00:100::1", None))


def _uplink(name: str, number: int, up: bool) -> shown.UplinkView:
    return shown.UplinkView(
        name, f"gw-{name}", number, up, (ip_interface("192.168.100.2/24"), ip_interface("fd00:100::2/64")),
        tuple(shown.NextHopView(ip_address(hop), mac) for hop, mac in HOPS),
        PortCounters(PacketCounters(1000 + number, 2000), PacketCounters(3000 + number, 4000), 5, 6), tunnel=None,
    )  # fmt: skip


BUCKETS = (
    shown.BucketView("home", "client bicast", "wifi", PacketCounters(70, 7000)),
    shown.BucketView("home", "client bicast", "lte", PacketCounters(71, 7100)),
)
NO_COPIES = "no copies arrive over it: none for 1.0 s, while 50 packets arrived over others"
HOME = shown.GatewayView(
    name="home", dpid="0000000000000001", bridge="br-home", state=GatewayState.STEADY, since=1_700_000_000.0,
    peer="127.0.0.1:51234", rival=None, last_error=None, reconciles=3, changes_sent=40, last_changes=0, refusals=0,
    conflicts=("table=0,priority=10",), uplinks=(_uplink("wifi", 1, True), _uplink("lte", 2, False)),
    copies=shown.CopiesView(
        copied=("tcp",), eliminated=True, reason=None, window_us=20_000,
        paths=(
            PathCopies("wifi", True, 100, 3, 0, 1, 0, 2, 7, ()),
            PathCopies("lte", False, 4, 98, 2, 0, 0, 0, 0, (0,) * 20 + (60, 40)),
        ),
        silent=(shown.SilentView("lte", NO_COPIES),),
        unidentified=(shown.UnidentifiedView("wifi", "copies cannot be identified for 3% of 900 packets in 10 s"),),
    ),
    fitting=None,
)  # fmt: skip
SHED = replace(
    HOME, name="shed", dpid="0000000000000002", bridge="br-shed", state=GatewayState.ABSENT, peer=None, conflicts=(),
    uplinks=(), copies=None,
)  # fmt: skip

SILENT = TunnelEnd("lte", "nobody is heard", "192.0.2.7:61234", 4200, 8500, 1380, 2)
DUG = shown.TunnelView(False, "nobody is heard", SILENT, encrypted=False)
METERED = replace(
    HOME,
    uplinks=(
        HOME.uplinks[0],
        replace(
            HOME.uplinks[1],
            budget=shown.BudgetView(99_900_000, 100_000_000, Period.DAY, 0.12, 0.25, None, "used up until 00:00"),
        ),
    ),
)
TUNNELLED = replace(
    HOME,
    uplinks=(HOME.uplinks[0], replace(HOME.uplinks[1], tunnel=DUG)),
    fitting=shown.FittingView(1380, (("eth2", "it has an XDP program already"),)),
)


PASSED = (shown.PassedView("tcp", True, 1200, 30), shown.PassedView("everything else", True, 0, 3000))
TRAFFIC = shown.TrafficView(60.0, PASSED)


def _terminal(name: str, address: str) -> shown.TerminalView:
    return shown.TerminalView(
        name=name, gateway="home", mode=Mode.BICAST, acting=Mode.BICAST, active_uplink="wifi",
        active_by=shown.ActiveBy.DEFAULT, default_uplink="wifi", access_point="air", mode_overridden=False,
        addresses=(shown.AddressView(ip_address(address), "wifi-side", "gw-c1", None),), sent=PacketCounters(10, 1000),
        received=PacketCounters(20, 2000), traffic=TRAFFIC,
    )  # fmt: skip


RELAY = shown.AgentView(
    name="relay-1", role=Role.RELAY, state=shown.AgentState.HERE, since=1_700_000_000.0, peer="192.0.2.1:50000",
    version="1.0", path_manager=PathManager.USERSPACE, reported_at=1_700_000_010.0, reports=11, terminals=("client",),
    missing=(shown.MissingView("clamp", "this kernel has no sock_ops programs"),), cpu_us=5_000_000,
    rss_bytes=18_000_000,
)  # fmt: skip
LOST = replace(
    RELAY, name="client", role=Role.TERMINAL, state=shown.AgentState.SILENT, reported_at=None, terminals=(), missing=()
)
COURSE = shown.CourseView(
    terminal="client",
    copying=shown.CopyingView(
        Mode.AUTO,
        Mode.BICAST,
        "wifi: 6.1% of 300 packets lost",
        1_700_000_002.0,
        ("tcp",),
        "no peer site mirrors home, so packets other than TCP would arrive twice",
        TRAFFIC,
    ),
    active_uplink="lte", active_by=shown.ActiveBy.POLICIES, movers=("relay-1",), unmoved=None,
    own_end=shown.EndView((), "agent client is silent"), other_end=shown.EndView(("relay-1",), None),
    uplinks=(
        shown.HealthView("wifi", UplinkHealth.LOSSY, "12% of 300 segments sent again", 1_700_000_000.0, ("192.0.2.7",)),
        shown.HealthView(
            "lte", UplinkHealth.GOOD, "0% of 300 segments retransmitted in 3 reports", 1_700_000_000.0, ("192.0.2.8",)
        ),
    ),
    subflows=(
        shown.SubflowsView("relay-1", 3, "wifi", 0, 3, 41_300),
        shown.SubflowsView("relay-1", 3, "lte", 2, 1, None),
    ),
    armed_failovers=(
        shown.ArmedFailoverView("relay-1", "lte", "wifi", 200, 1_700_000_030.0, None, None),
        shown.ArmedFailoverView("client", "lte", "wifi", 150, 1_700_000_029.0, None, "is silent"),
    ),
    decisions=(
        shown.DecisionView(
            3,
            1_700_000_001.0,
            By.POLICY,
            "lte",
            "wifi",
            "wifi: 12% of 300 segments retransmitted in 3 reports; lte is good",
            False,
            None,
            (
                shown.OutcomeView(None, True, "gateway home: 2 groups modified", 0, 0, 1),
                shown.OutcomeView("relay-1", True, "it is active", 3, 140, 2),
            ),
            None,
            ("relay-1", "client"),
        ),
        shown.DecisionView(
            2,
            1_700_000_000.0,
            By.PEOPLE,
            "wifi",
            "lte",
            "a person requested it",
            False,
            None,
            (shown.OutcomeView(None, None, "gateway home: 2 groups modified", 0, 0, 1),),
            "no agent can move its connections",
        ),
        shown.DecisionView(
            1,
            1_699_999_999.0,
            By.POLICY,
            "lte",
            "lte",
            "lte: 6.1% of 300 packets lost, 0.0% late, as senders report",
            False,
            True,
            (shown.OutcomeView(None, True, "gateway home: 4 groups modified", 0, 0, 1),),
            None,
        ),
    ),
)  # fmt: skip

CLASSES = (
    shown.ClassView("voip", Mode.BICAST, False, Mode.BICAST),
    shown.ClassView("backup-job", Mode.SINGLE, False, Mode.SINGLE),
)

SHARES = SharerView(
    terminal="client", reporting=True, active=True, connections=2, rtt_ratio=1.5, most_segments=10, least_segments=8,
    windows=(WindowView("192.168.110.3", "203.0.113.5", 5, 4, 0),), agent="client", method="congestion-control",
    instead=None, held=True, reason="ideal: 3 active, 20 Mbit/s x 16.2 ms / 3 = 9 + 1 segments, 2 connections",
    doubts=(), doubted=0,
)  # fmt: skip
DOUBTED = replace(
    SHARES, terminal="tablet", agent=None, method=None, held=False,
    reason="no agent speaks for it, and the gateway's agent home cannot: the kernel does not take the program",
    doubts=("a round trip of 0",), doubted=3,
)  # fmt: skip
AIR = AccessPointView(
    name="air", gateway="home", rule=CapRule.IDEAL, tables=None, bandwidth_bps=20_000_000, measured=None, active=2,
    block_bytes=65_536, released=None, missing=(("gw-c2", "there is no network device gw-c2 here"),),
    terminals=(SHARES, DOUBTED),
)  # fmt: skip

START = shown.Snapshot(
    version=VERSION, gateways=(HOME, SHED),
    terminals=(_terminal("client", "192.168.110.3"), _terminal("tablet", "fd00:110::4")), agents=(RELAY, LOST),
    config_path="/etc/bicast/gateway.yaml", config_loaded_at=1_700_000_000.5, config_failures=0, config_error=None,
    access_points=(), paths=(),
)  # fmt: skip

SHARED = replace(START, access_points=(AIR,))

MINUTE = HealthWindow(60, 600, 3, 1, 1, 0, 40_000, 41_300, 45_000, "", 100, 900, 50, 80, 700, 40)
UP = DirectionView(
    direction="up", bps=9_980_000.0, least_bps=9_900_000.0, most_bps=10_100_000.0, age_s=240.0,
    methods=("one packet", "trains"), reason="",
    by_method=(
        MethodView("one packet", 9_970_000.0, 9_840_000.0, 10_100_000.0, 240.0, ""),
        MethodView("trains", None, None, None, None, "3 trains of 10 arrived, expected at least 6"),
    ),
    alpha_ns_per_byte=None, running=False, ended=3, next_in_s=360.0, error="", sent=900, lost=2, reordered=0,
    mtu_bytes=None,
)  # fmt: skip
DOWN = replace(
    UP, direction="down", bps=None, least_bps=None, most_bps=None, age_s=None, methods=(),
    reason="nothing was measured within the last hour", by_method=(),
    error="the agent home disconnected during the probe",
)  # fmt: skip
LTE = PathView("home", "lte", "home", "shed", None, PathHealthView(7000, 5, 2, 2, 1, (MINUTE,)), (UP, DOWN))
WIFI = PathView("home", "wifi", "home", "shed", "`measure` is not written at this uplink", None, ())
MEASURED = replace(START, paths=(LTE, WIFI))

WITH_CLASSES = replace(START, terminals=(replace(START.terminals[0], classes=CLASSES), *START.terminals[1:]))


REPORT = RelayReport("", False, 3, 2, 900, 1, 2, 40, 10**6, 10**8, 80, 12, "bbr")
TOKYO = RelayView(
    name="tokyo", address="198.51.100.9", port=443, allowed=("80", "443"), congestion="bbr", draining=False,
    reporting=True, why_not=None, report=REPORT, age_s=0.4,
    reached=(
        ReachedView("home", None, 3, 2, 41.0, 20.5, 60.0),
        ReachedView("shed", "no route to host", 0, 0, None, None, None),
    ),
)  # fmt: skip
INTERCEPTION = InterceptionView(
    gateway="home", choose=Choosing.PREDICTED, fallback=Fallback.DIRECT, why_not=None,
    terminals=(TerminalInterception("client", 3, 120, 4, 1, 10**6, 10**8),), places=2, chosen=1,
)  # fmt: skip
CHOICE = ChoiceView(Choosing.PREDICTED, ("tokyo",), "tokyo 251 Mbit/s; direct 126 Mbit/s", 251e6, 126e6)
DESTINATION = DestinationView(
    gateway="home", prefix="8.8.8.0/24", address="8.8.8.8", choice=CHOICE, made=True,
    legs=(
        LegView("home", "8.8.8.8", 200.0, 12.0, None, ("192.0.2.1", "")),
        LegView("home", "tokyo", 100.0, 12.0, None, ()),
        LegView("tokyo", "8.8.8.8", None, None, "nobody answers", ()),
    ),
    otherwise=(replace(CHOICE, method=Choosing.PING, relays=(), reason="no relay has both legs shorter"),),
)  # fmt: skip
RELAYED = replace(START, relays=(TOKYO,), interceptions=(INTERCEPTION,))


class FakeCore:
    """Reader, program and writer in one. `silent` makes the core stop answering."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self.reset()

    def reset(self) -> None:
        self.snapshot = START
        self.silent = False
        self.links: list[float | None] = []  # rates given with probes
        self.relays: dict[str, RelayOverride] = {}  # overrides
        self.budgets_set: list[tuple[str, str, int]] = []  # gateway, uplink and bytes

    def read(self) -> shown.Snapshot:
        self._answer()
        return self.snapshot

    def alive(self) -> None:
        self._answer()

    def buckets(self) -> tuple[shown.BucketView, ...]:
        self._answer()
        return BUCKETS

    def program(self, gateway: str) -> Program | None:
        return {"home": PROGRAM, "shed": None}[gateway]

    def decisions(self, terminal: str) -> shown.CourseView:
        (one,) = self._meant(terminal)
        return replace(COURSE, terminal=one.name)

    def set_mode(self, terminal: str, mode: Mode | None, traffic: str | None = None) -> OverrideResult:
        with self._one_at_a_time:
            meant = self._meant(terminal)
            if traffic is not None:
                return self._set_class_mode(meant, mode, traffic)
            told = "follows gateway.yaml" if mode is None else f"is now in mode {mode}"
            changed = [replace(one, mode=mode or Mode.BICAST, mode_overridden=mode is not None) for one in meant]
            return self._keep(changed, tuple(f"{one.name} {told}" for one in meant))

    def _set_class_mode(self, meant: list[shown.TerminalView], mode: Mode | None, traffic: str) -> OverrideResult:
        having = [one for one in meant if any(each.name == traffic for each in one.classes)]
        if not having:
            raise unknown_class(traffic, {one.gateway for one in meant}, set())
        return OverrideResult(tuple(f"{one.name}/{traffic} is in mode {mode or 'file'}" for one in having), True, 2)

    def set_active(self, terminal: str, uplink: str) -> OverrideResult:
        with self._one_at_a_time:
            (one,) = self._meant(terminal)
            if uplink not in ("wifi", "lte"):
                raise Impossible(f"home has no uplink {uplink!r}; it has wifi, lte")
            if one.active_uplink == uplink:
                return self._keep([], (f"{terminal} is already on {uplink}",))
            return self._keep([replace(one, active_uplink=uplink)], (f"{terminal} is now on {uplink}",))

    def set_used(self, gateway: str, uplink: str, used_bytes: int) -> OverrideResult:
        with self._one_at_a_time:
            self._answer()
            there = {one.name: one for one in self.snapshot.gateways}
            if gateway not in there or uplink not in [one.name for one in there[gateway].uplinks]:
                raise UnknownUplink(f"no gateway {gateway!r} has an uplink named {uplink!r}")
            self.budgets_set.append((gateway, uplink, used_bytes))
            used = f"{used_bytes} bytes" if used_bytes else "nothing"
            return OverrideResult((f"{uplink} of {gateway} has used {used} of its budget",), True, 2)

    def measure(self, uplink: str, site: str | None = None, link_bps: float | None = None) -> OverrideResult:
        """The result is available at the next read."""
        with self._one_at_a_time:
            self._answer()
            meant = [one for one in self.snapshot.paths if one.uplink == uplink and site in (None, one.near, one.far)]
            if not meant:
                raise Impossible(f"no uplink {uplink} leads to another site of the file; those that do: none")
            self.links.append(link_bps)
            alpha_ns = None if link_bps is None else 1.25
            ended = {
                one: replace(one, directions=tuple(self._probed(way, alpha_ns) for way in one.directions))
                for one in meant
            }
            self.snapshot = replace(self.snapshot, paths=tuple(ended.get(one, one) for one in self.snapshot.paths))
            return OverrideResult(
                tuple(f"{one.uplink} of {one.site} is being measured in both directions" for one in meant), True, 0
            )

    def set_relay(self, name: str, relay: RelayOverride) -> OverrideResult:
        self._answer()
        self.relays[name] = relay
        return OverrideResult((f"{name} is now a relay, at {relay.address}",), True, 0)

    def remove_relay(self, name: str) -> OverrideResult:
        self._known(name)
        self.snapshot = replace(self.snapshot, relays=())
        return OverrideResult((f"{name} is no longer a relay; it carries 3 connections, which end now",), True, 0)

    def drain_relay(self, name: str, draining: bool) -> OverrideResult:
        one = self._known(name)
        self.snapshot = replace(self.snapshot, relays=(replace(one, draining=draining),))
        takes = "no new connections; it carries 3 connections" if draining else "new connections"
        return OverrideResult((f"{name} accepts {takes}",), one.draining is not draining, 0)

    def try_relay(self, name: str, address: Address | None) -> TriedView:
        return TriedView(self._known(name), (DESTINATION,) if address is not None else ())

    def destination(self, address: Address, site: str | None = None) -> tuple[DestinationView, ...]:
        self._answer()
        if site not in (None, "home"):
            raise Impossible(f"the site {site!r} has no relayed terminal; sites with relayed terminals: home")
        return (replace(DESTINATION, address=str(address)),)

    def _known(self, name: str) -> RelayView:
        self._answer()
        for one in self.snapshot.relays:
            if one.name == name:
                return one
        raise UnknownRelay(f"no relay is named {name!r}; there are: none")

    def _probed(self, way: DirectionView, alpha_ns: float | None) -> DirectionView:
        return replace(way, ended=way.ended + 1, alpha_ns_per_byte=alpha_ns)

    def _answer(self) -> None:
        if self.silent:
            raise NotAnswered("the core did not answer within 5 s; try again")

    def _meant(self, terminal: str) -> list[shown.TerminalView]:
        self._answer()
        meant = [one for one in self.snapshot.terminals if terminal in (EVERYBODY, one.name)]
        if not meant:
            raise unknown_terminal(terminal, (one.name for one in self.snapshot.terminals))
        return meant

    def _keep(self, changed: list[shown.TerminalView], done: tuple[str, ...]) -> OverrideResult:
        new = {one.name: one for one in changed}
        terminals = tuple(new.get(one.name, one) for one in self.snapshot.terminals)
        self.snapshot = replace(self.snapshot, terminals=terminals)
        return OverrideResult(done, bool(changed), 2 * len(changed))
