from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_TERMINAL: _ClassVar[Role]
    ROLE_GATEWAY: _ClassVar[Role]
    ROLE_RELAY: _ClassVar[Role]

class PathManager(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PATH_MANAGER_UNSPECIFIED: _ClassVar[PathManager]
    PATH_MANAGER_KERNEL: _ClassVar[PathManager]
    PATH_MANAGER_USERSPACE: _ClassVar[PathManager]
ROLE_UNSPECIFIED: Role
ROLE_TERMINAL: Role
ROLE_GATEWAY: Role
ROLE_RELAY: Role
PATH_MANAGER_UNSPECIFIED: PathManager
PATH_MANAGER_KERNEL: PathManager
PATH_MANAGER_USERSPACE: PathManager

class JoinRequest(_message.Message):
    __slots__ = ("name", "token", "signing_request")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SIGNING_REQUEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    token: str
    signing_request: bytes
    def __init__(self, name: _Optional[str] = ..., token: _Optional[str] = ..., signing_request: _Optional[bytes] = ...) -> None: ...

class JoinReply(_message.Message):
    __slots__ = ("certificate", "ca", "session")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    CA_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    ca: bytes
    session: str
    def __init__(self, certificate: _Optional[bytes] = ..., ca: _Optional[bytes] = ..., session: _Optional[str] = ...) -> None: ...

class JoinAnswer(_message.Message):
    __slots__ = ("joined", "refused")
    JOINED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    joined: JoinReply
    refused: End
    def __init__(self, joined: _Optional[_Union[JoinReply, _Mapping]] = ..., refused: _Optional[_Union[End, _Mapping]] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("cause", "reason")
    class Cause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PASSING: _ClassVar[End.Cause]
        REFUSED: _ClassVar[End.Cause]
        CREDENTIAL: _ClassVar[End.Cause]
    PASSING: End.Cause
    REFUSED: End.Cause
    CREDENTIAL: End.Cause
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    cause: End.Cause
    reason: str
    def __init__(self, cause: _Optional[_Union[End.Cause, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class FromAgent(_message.Message):
    __slots__ = ("hello", "report", "result", "fired", "probe_report", "distances_measured", "stopping")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    FIRED_FIELD_NUMBER: _ClassVar[int]
    PROBE_REPORT_FIELD_NUMBER: _ClassVar[int]
    DISTANCES_MEASURED_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    report: Report
    result: Result
    fired: FailoverFired
    probe_report: ProbeReport
    distances_measured: DistancesMeasured
    stopping: Stopping
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., result: _Optional[_Union[Result, _Mapping]] = ..., fired: _Optional[_Union[FailoverFired, _Mapping]] = ..., probe_report: _Optional[_Union[ProbeReport, _Mapping]] = ..., distances_measured: _Optional[_Union[DistancesMeasured, _Mapping]] = ..., stopping: _Optional[_Union[Stopping, _Mapping]] = ...) -> None: ...

class Stopping(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FromController(_message.Message):
    __slots__ = ("welcome", "ack", "directive", "end", "renewed")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    DIRECTIVE_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    ack: ReportAck
    directive: Directive
    end: End
    renewed: Renewed
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., ack: _Optional[_Union[ReportAck, _Mapping]] = ..., directive: _Optional[_Union[Directive, _Mapping]] = ..., end: _Optional[_Union[End, _Mapping]] = ..., renewed: _Optional[_Union[Renewed, _Mapping]] = ...) -> None: ...

class Renewed(_message.Message):
    __slots__ = ("certificate",)
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    def __init__(self, certificate: _Optional[bytes] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol", "version", "role", "capabilities", "path_manager", "kernel", "addresses", "tunnel_keys")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    PATH_MANAGER_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    TUNNEL_KEYS_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    version: str
    role: Role
    capabilities: _containers.RepeatedCompositeFieldContainer[Capability]
    path_manager: PathManager
    kernel: str
    addresses: _containers.RepeatedScalarFieldContainer[str]
    tunnel_keys: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, protocol: _Optional[int] = ..., version: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., capabilities: _Optional[_Iterable[_Union[Capability, _Mapping]]] = ..., path_manager: _Optional[_Union[PathManager, str]] = ..., kernel: _Optional[str] = ..., addresses: _Optional[_Iterable[str]] = ..., tunnel_keys: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Capability(_message.Message):
    __slots__ = ("name", "available", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    available: bool
    reason: str
    def __init__(self, name: _Optional[str] = ..., available: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("protocol", "report_interval_ms")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    REPORT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    report_interval_ms: int
    def __init__(self, protocol: _Optional[int] = ..., report_interval_ms: _Optional[int] = ...) -> None: ...

class ReportAck(_message.Message):
    __slots__ = ("sequence",)
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    def __init__(self, sequence: _Optional[int] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("sequence", "monotonic_us", "interval_ms", "connections", "interfaces", "cost", "connections_left_out", "elimination", "tunnelling", "capping", "answering", "health", "relay", "interception", "devices")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MONOTONIC_US_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    INTERFACES_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    ELIMINATION_FIELD_NUMBER: _ClassVar[int]
    TUNNELLING_FIELD_NUMBER: _ClassVar[int]
    CAPPING_FIELD_NUMBER: _ClassVar[int]
    ANSWERING_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    RELAY_FIELD_NUMBER: _ClassVar[int]
    INTERCEPTION_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    monotonic_us: int
    interval_ms: int
    connections: _containers.RepeatedCompositeFieldContainer[Connection]
    interfaces: _containers.RepeatedCompositeFieldContainer[Interface]
    cost: Cost
    connections_left_out: int
    elimination: Elimination
    tunnelling: Tunnelling
    capping: Capping
    answering: Answering
    health: _containers.RepeatedCompositeFieldContainer[PathHealth]
    relay: RelayReport
    interception: InterceptionReport
    devices: _containers.RepeatedCompositeFieldContainer[LanDevice]
    def __init__(self, sequence: _Optional[int] = ..., monotonic_us: _Optional[int] = ..., interval_ms: _Optional[int] = ..., connections: _Optional[_Iterable[_Union[Connection, _Mapping]]] = ..., interfaces: _Optional[_Iterable[_Union[Interface, _Mapping]]] = ..., cost: _Optional[_Union[Cost, _Mapping]] = ..., connections_left_out: _Optional[int] = ..., elimination: _Optional[_Union[Elimination, _Mapping]] = ..., tunnelling: _Optional[_Union[Tunnelling, _Mapping]] = ..., capping: _Optional[_Union[Capping, _Mapping]] = ..., answering: _Optional[_Union[Answering, _Mapping]] = ..., health: _Optional[_Iterable[_Union[PathHealth, _Mapping]]] = ..., relay: _Optional[_Union[RelayReport, _Mapping]] = ..., interception: _Optional[_Union[InterceptionReport, _Mapping]] = ..., devices: _Optional[_Iterable[_Union[LanDevice, _Mapping]]] = ...) -> None: ...

class LanDevice(_message.Message):
    __slots__ = ("address", "mac", "name")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    MAC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    address: str
    mac: str
    name: str
    def __init__(self, address: _Optional[str] = ..., mac: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class Connection(_message.Message):
    __slots__ = ("token", "subflows", "bytes_sent", "bytes_received", "serves")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SUBFLOWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    BYTES_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    SERVES_FIELD_NUMBER: _ClassVar[int]
    token: int
    subflows: _containers.RepeatedCompositeFieldContainer[Subflow]
    bytes_sent: int
    bytes_received: int
    serves: bool
    def __init__(self, token: _Optional[int] = ..., subflows: _Optional[_Iterable[_Union[Subflow, _Mapping]]] = ..., bytes_sent: _Optional[int] = ..., bytes_received: _Optional[int] = ..., serves: _Optional[bool] = ...) -> None: ...

class Subflow(_message.Message):
    __slots__ = ("local_address", "local_port", "remote_address", "remote_port", "local_id", "remote_id", "backup_by_us", "backup_by_peer", "srtt_us", "min_rtt_us", "cwnd_segments", "mss_bytes", "in_flight_segments", "delivery_rate_bps", "segments_sent", "retransmits", "bytes_acked", "bytes_received", "since_ack_ms", "since_data_ms", "segments_delivered")
    LOCAL_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LOCAL_PORT_FIELD_NUMBER: _ClassVar[int]
    REMOTE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REMOTE_PORT_FIELD_NUMBER: _ClassVar[int]
    LOCAL_ID_FIELD_NUMBER: _ClassVar[int]
    REMOTE_ID_FIELD_NUMBER: _ClassVar[int]
    BACKUP_BY_US_FIELD_NUMBER: _ClassVar[int]
    BACKUP_BY_PEER_FIELD_NUMBER: _ClassVar[int]
    SRTT_US_FIELD_NUMBER: _ClassVar[int]
    MIN_RTT_US_FIELD_NUMBER: _ClassVar[int]
    CWND_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    MSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_SENT_FIELD_NUMBER: _ClassVar[int]
    RETRANSMITS_FIELD_NUMBER: _ClassVar[int]
    BYTES_ACKED_FIELD_NUMBER: _ClassVar[int]
    BYTES_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    SINCE_ACK_MS_FIELD_NUMBER: _ClassVar[int]
    SINCE_DATA_MS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_DELIVERED_FIELD_NUMBER: _ClassVar[int]
    local_address: str
    local_port: int
    remote_address: str
    remote_port: int
    local_id: int
    remote_id: int
    backup_by_us: bool
    backup_by_peer: bool
    srtt_us: int
    min_rtt_us: int
    cwnd_segments: int
    mss_bytes: int
    in_flight_segments: int
    delivery_rate_bps: int
    segments_sent: int
    retransmits: int
    bytes_acked: int
    bytes_received: int
    since_ack_ms: int
    since_data_ms: int
    segments_delivered: int
    def __init__(self, local_address: _Optional[str] = ..., local_port: _Optional[int] = ..., remote_address: _Optional[str] = ..., remote_port: _Optional[int] = ..., local_id: _Optional[int] = ..., remote_id: _Optional[int] = ..., backup_by_us: _Optional[bool] = ..., backup_by_peer: _Optional[bool] = ..., srtt_us: _Optional[int] = ..., min_rtt_us: _Optional[int] = ..., cwnd_segments: _Optional[int] = ..., mss_bytes: _Optional[int] = ..., in_flight_segments: _Optional[int] = ..., delivery_rate_bps: _Optional[int] = ..., segments_sent: _Optional[int] = ..., retransmits: _Optional[int] = ..., bytes_acked: _Optional[int] = ..., bytes_received: _Optional[int] = ..., since_ack_ms: _Optional[int] = ..., since_data_ms: _Optional[int] = ..., segments_delivered: _Optional[int] = ...) -> None: ...

class Interface(_message.Message):
    __slots__ = ("name", "up", "addresses", "bytes_sent", "bytes_received")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    BYTES_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    name: str
    up: bool
    addresses: _containers.RepeatedScalarFieldContainer[str]
    bytes_sent: int
    bytes_received: int
    def __init__(self, name: _Optional[str] = ..., up: _Optional[bool] = ..., addresses: _Optional[_Iterable[str]] = ..., bytes_sent: _Optional[int] = ..., bytes_received: _Optional[int] = ...) -> None: ...

class Elimination(_message.Message):
    __slots__ = ("window_us", "paths", "missing")
    WINDOW_US_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    window_us: int
    paths: _containers.RepeatedCompositeFieldContainer[PathCopies]
    missing: _containers.RepeatedCompositeFieldContainer[Missing]
    def __init__(self, window_us: _Optional[int] = ..., paths: _Optional[_Iterable[_Union[PathCopies, _Mapping]]] = ..., missing: _Optional[_Iterable[_Union[Missing, _Mapping]]] = ...) -> None: ...

class PathCopies(_message.Message):
    __slots__ = ("name", "first", "eliminated", "late", "rogue", "evicted", "unidentified", "skew", "native", "not_forwarded")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    ELIMINATED_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    ROGUE_FIELD_NUMBER: _ClassVar[int]
    EVICTED_FIELD_NUMBER: _ClassVar[int]
    UNIDENTIFIED_FIELD_NUMBER: _ClassVar[int]
    SKEW_FIELD_NUMBER: _ClassVar[int]
    NATIVE_FIELD_NUMBER: _ClassVar[int]
    NOT_FORWARDED_FIELD_NUMBER: _ClassVar[int]
    name: str
    first: int
    eliminated: int
    late: int
    rogue: int
    evicted: int
    unidentified: int
    skew: _containers.RepeatedScalarFieldContainer[int]
    native: bool
    not_forwarded: int
    def __init__(self, name: _Optional[str] = ..., first: _Optional[int] = ..., eliminated: _Optional[int] = ..., late: _Optional[int] = ..., rogue: _Optional[int] = ..., evicted: _Optional[int] = ..., unidentified: _Optional[int] = ..., skew: _Optional[_Iterable[int]] = ..., native: _Optional[bool] = ..., not_forwarded: _Optional[int] = ...) -> None: ...

class Missing(_message.Message):
    __slots__ = ("port", "reason")
    PORT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    port: str
    reason: str
    def __init__(self, port: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Tunnelling(_message.Message):
    __slots__ = ("ends", "largest_bytes", "missing")
    ENDS_FIELD_NUMBER: _ClassVar[int]
    LARGEST_BYTES_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    ends: _containers.RepeatedCompositeFieldContainer[TunnelEnd]
    largest_bytes: int
    missing: _containers.RepeatedCompositeFieldContainer[Missing]
    def __init__(self, ends: _Optional[_Iterable[_Union[TunnelEnd, _Mapping]]] = ..., largest_bytes: _Optional[int] = ..., missing: _Optional[_Iterable[_Union[Missing, _Mapping]]] = ...) -> None: ...

class TunnelEnd(_message.Message):
    __slots__ = ("name", "reason", "peer", "since_packet_ms", "rtt_us", "mtu_bytes", "moves")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    SINCE_PACKET_MS_FIELD_NUMBER: _ClassVar[int]
    RTT_US_FIELD_NUMBER: _ClassVar[int]
    MTU_BYTES_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    peer: str
    since_packet_ms: int
    rtt_us: int
    mtu_bytes: int
    moves: int
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., peer: _Optional[str] = ..., since_packet_ms: _Optional[int] = ..., rtt_us: _Optional[int] = ..., mtu_bytes: _Optional[int] = ..., moves: _Optional[int] = ...) -> None: ...

class Capping(_message.Message):
    __slots__ = ("method", "held_sockets", "missing", "passing")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    HELD_SOCKETS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    PASSING_FIELD_NUMBER: _ClassVar[int]
    method: str
    held_sockets: int
    missing: _containers.RepeatedCompositeFieldContainer[Missing]
    passing: _containers.RepeatedCompositeFieldContainer[Passing]
    def __init__(self, method: _Optional[str] = ..., held_sockets: _Optional[int] = ..., missing: _Optional[_Iterable[_Union[Missing, _Mapping]]] = ..., passing: _Optional[_Iterable[_Union[Passing, _Mapping]]] = ...) -> None: ...

class Passing(_message.Message):
    __slots__ = ("terminal_address", "terminal_port", "other_address", "other_port", "bytes_sent", "srtt_us", "min_rtt_us", "mss_bytes", "since_data_ms", "joined", "has_scale")
    TERMINAL_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_PORT_FIELD_NUMBER: _ClassVar[int]
    OTHER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    OTHER_PORT_FIELD_NUMBER: _ClassVar[int]
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    SRTT_US_FIELD_NUMBER: _ClassVar[int]
    MIN_RTT_US_FIELD_NUMBER: _ClassVar[int]
    MSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    SINCE_DATA_MS_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    HAS_SCALE_FIELD_NUMBER: _ClassVar[int]
    terminal_address: str
    terminal_port: int
    other_address: str
    other_port: int
    bytes_sent: int
    srtt_us: int
    min_rtt_us: int
    mss_bytes: int
    since_data_ms: int
    joined: bool
    has_scale: bool
    def __init__(self, terminal_address: _Optional[str] = ..., terminal_port: _Optional[int] = ..., other_address: _Optional[str] = ..., other_port: _Optional[int] = ..., bytes_sent: _Optional[int] = ..., srtt_us: _Optional[int] = ..., min_rtt_us: _Optional[int] = ..., mss_bytes: _Optional[int] = ..., since_data_ms: _Optional[int] = ..., joined: _Optional[bool] = ..., has_scale: _Optional[bool] = ...) -> None: ...

class Answering(_message.Message):
    __slots__ = ("reason", "probes", "health_packets", "unauthenticated", "replays", "too_many")
    REASON_FIELD_NUMBER: _ClassVar[int]
    PROBES_FIELD_NUMBER: _ClassVar[int]
    HEALTH_PACKETS_FIELD_NUMBER: _ClassVar[int]
    UNAUTHENTICATED_FIELD_NUMBER: _ClassVar[int]
    REPLAYS_FIELD_NUMBER: _ClassVar[int]
    TOO_MANY_FIELD_NUMBER: _ClassVar[int]
    reason: str
    probes: int
    health_packets: int
    unauthenticated: int
    replays: int
    too_many: int
    def __init__(self, reason: _Optional[str] = ..., probes: _Optional[int] = ..., health_packets: _Optional[int] = ..., unauthenticated: _Optional[int] = ..., replays: _Optional[int] = ..., too_many: _Optional[int] = ...) -> None: ...

class PathHealth(_message.Message):
    __slots__ = ("name", "reason", "sent", "lost", "lost_there", "lost_back", "late", "windows")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    LOST_THERE_FIELD_NUMBER: _ClassVar[int]
    LOST_BACK_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    WINDOWS_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    sent: int
    lost: int
    lost_there: int
    lost_back: int
    late: int
    windows: _containers.RepeatedCompositeFieldContainer[HealthWindow]
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., sent: _Optional[int] = ..., lost: _Optional[int] = ..., lost_there: _Optional[int] = ..., lost_back: _Optional[int] = ..., late: _Optional[int] = ..., windows: _Optional[_Iterable[_Union[HealthWindow, _Mapping]]] = ...) -> None: ...

class HealthWindow(_message.Message):
    __slots__ = ("seconds", "sent", "lost", "lost_there", "lost_back", "reordered", "rtt_least_us", "rtt_median_us", "rtt_p95_us", "reason", "there_median_us", "there_p95_us", "there_jitter_us", "back_median_us", "back_p95_us", "back_jitter_us")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    LOST_THERE_FIELD_NUMBER: _ClassVar[int]
    LOST_BACK_FIELD_NUMBER: _ClassVar[int]
    REORDERED_FIELD_NUMBER: _ClassVar[int]
    RTT_LEAST_US_FIELD_NUMBER: _ClassVar[int]
    RTT_MEDIAN_US_FIELD_NUMBER: _ClassVar[int]
    RTT_P95_US_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    THERE_MEDIAN_US_FIELD_NUMBER: _ClassVar[int]
    THERE_P95_US_FIELD_NUMBER: _ClassVar[int]
    THERE_JITTER_US_FIELD_NUMBER: _ClassVar[int]
    BACK_MEDIAN_US_FIELD_NUMBER: _ClassVar[int]
    BACK_P95_US_FIELD_NUMBER: _ClassVar[int]
    BACK_JITTER_US_FIELD_NUMBER: _ClassVar[int]
    seconds: int
    sent: int
    lost: int
    lost_there: int
    lost_back: int
    reordered: int
    rtt_least_us: int
    rtt_median_us: int
    rtt_p95_us: int
    reason: str
    there_median_us: int
    there_p95_us: int
    there_jitter_us: int
    back_median_us: int
    back_p95_us: int
    back_jitter_us: int
    def __init__(self, seconds: _Optional[int] = ..., sent: _Optional[int] = ..., lost: _Optional[int] = ..., lost_there: _Optional[int] = ..., lost_back: _Optional[int] = ..., reordered: _Optional[int] = ..., rtt_least_us: _Optional[int] = ..., rtt_median_us: _Optional[int] = ..., rtt_p95_us: _Optional[int] = ..., reason: _Optional[str] = ..., there_median_us: _Optional[int] = ..., there_p95_us: _Optional[int] = ..., there_jitter_us: _Optional[int] = ..., back_median_us: _Optional[int] = ..., back_p95_us: _Optional[int] = ..., back_jitter_us: _Optional[int] = ...) -> None: ...

class RelayReport(_message.Message):
    __slots__ = ("reason", "draining", "connections", "waiting", "carried", "refused", "failed", "unauthenticated", "bytes_up", "bytes_down", "overhead_us", "busy_percent", "congestion")
    REASON_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    CARRIED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    UNAUTHENTICATED_FIELD_NUMBER: _ClassVar[int]
    BYTES_UP_FIELD_NUMBER: _ClassVar[int]
    BYTES_DOWN_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_US_FIELD_NUMBER: _ClassVar[int]
    BUSY_PERCENT_FIELD_NUMBER: _ClassVar[int]
    CONGESTION_FIELD_NUMBER: _ClassVar[int]
    reason: str
    draining: bool
    connections: int
    waiting: int
    carried: int
    refused: int
    failed: int
    unauthenticated: int
    bytes_up: int
    bytes_down: int
    overhead_us: int
    busy_percent: int
    congestion: str
    def __init__(self, reason: _Optional[str] = ..., draining: _Optional[bool] = ..., connections: _Optional[int] = ..., waiting: _Optional[int] = ..., carried: _Optional[int] = ..., refused: _Optional[int] = ..., failed: _Optional[int] = ..., unauthenticated: _Optional[int] = ..., bytes_up: _Optional[int] = ..., bytes_down: _Optional[int] = ..., overhead_us: _Optional[int] = ..., busy_percent: _Optional[int] = ..., congestion: _Optional[str] = ...) -> None: ...

class InterceptionReport(_message.Message):
    __slots__ = ("reason", "relays", "terminals", "pending")
    REASON_FIELD_NUMBER: _ClassVar[int]
    RELAYS_FIELD_NUMBER: _ClassVar[int]
    TERMINALS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    reason: str
    relays: _containers.RepeatedCompositeFieldContainer[RelayReached]
    terminals: _containers.RepeatedCompositeFieldContainer[TerminalInterception]
    pending: _containers.RepeatedCompositeFieldContainer[PendingDestination]
    def __init__(self, reason: _Optional[str] = ..., relays: _Optional[_Iterable[_Union[RelayReached, _Mapping]]] = ..., terminals: _Optional[_Iterable[_Union[TerminalInterception, _Mapping]]] = ..., pending: _Optional[_Iterable[_Union[PendingDestination, _Mapping]]] = ...) -> None: ...

class RelayReached(_message.Message):
    __slots__ = ("name", "reason", "connections", "opened", "setup_us")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    SETUP_US_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    connections: int
    opened: int
    setup_us: int
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., connections: _Optional[int] = ..., opened: _Optional[int] = ..., setup_us: _Optional[int] = ...) -> None: ...

class TerminalInterception(_message.Message):
    __slots__ = ("name", "connections", "relayed", "direct", "reset", "bytes_up", "bytes_down")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    RELAYED_FIELD_NUMBER: _ClassVar[int]
    DIRECT_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    BYTES_UP_FIELD_NUMBER: _ClassVar[int]
    BYTES_DOWN_FIELD_NUMBER: _ClassVar[int]
    name: str
    connections: int
    relayed: int
    direct: int
    reset: int
    bytes_up: int
    bytes_down: int
    def __init__(self, name: _Optional[str] = ..., connections: _Optional[int] = ..., relayed: _Optional[int] = ..., direct: _Optional[int] = ..., reset: _Optional[int] = ..., bytes_up: _Optional[int] = ..., bytes_down: _Optional[int] = ...) -> None: ...

class PendingDestination(_message.Message):
    __slots__ = ("prefix", "address", "port")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    address: str
    port: int
    def __init__(self, prefix: _Optional[str] = ..., address: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class Cost(_message.Message):
    __slots__ = ("cpu_us", "rss_bytes")
    CPU_US_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    cpu_us: int
    rss_bytes: int
    def __init__(self, cpu_us: _Optional[int] = ..., rss_bytes: _Optional[int] = ...) -> None: ...

class Directive(_message.Message):
    __slots__ = ("id", "report_every", "prefer", "arm", "disarm", "eliminate", "tunnels", "caps", "answer", "health", "probe", "relay", "intercept", "choices", "measure_distances")
    ID_FIELD_NUMBER: _ClassVar[int]
    REPORT_EVERY_FIELD_NUMBER: _ClassVar[int]
    PREFER_FIELD_NUMBER: _ClassVar[int]
    ARM_FIELD_NUMBER: _ClassVar[int]
    DISARM_FIELD_NUMBER: _ClassVar[int]
    ELIMINATE_FIELD_NUMBER: _ClassVar[int]
    TUNNELS_FIELD_NUMBER: _ClassVar[int]
    CAPS_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    RELAY_FIELD_NUMBER: _ClassVar[int]
    INTERCEPT_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    MEASURE_DISTANCES_FIELD_NUMBER: _ClassVar[int]
    id: int
    report_every: ReportEvery
    prefer: Prefer
    arm: Arm
    disarm: Disarm
    eliminate: Eliminate
    tunnels: Tunnels
    caps: Caps
    answer: AnswerProbes
    health: HealthProbes
    probe: Probe
    relay: Relay
    intercept: Intercept
    choices: Choices
    measure_distances: MeasureDistances
    def __init__(self, id: _Optional[int] = ..., report_every: _Optional[_Union[ReportEvery, _Mapping]] = ..., prefer: _Optional[_Union[Prefer, _Mapping]] = ..., arm: _Optional[_Union[Arm, _Mapping]] = ..., disarm: _Optional[_Union[Disarm, _Mapping]] = ..., eliminate: _Optional[_Union[Eliminate, _Mapping]] = ..., tunnels: _Optional[_Union[Tunnels, _Mapping]] = ..., caps: _Optional[_Union[Caps, _Mapping]] = ..., answer: _Optional[_Union[AnswerProbes, _Mapping]] = ..., health: _Optional[_Union[HealthProbes, _Mapping]] = ..., probe: _Optional[_Union[Probe, _Mapping]] = ..., relay: _Optional[_Union[Relay, _Mapping]] = ..., intercept: _Optional[_Union[Intercept, _Mapping]] = ..., choices: _Optional[_Union[Choices, _Mapping]] = ..., measure_distances: _Optional[_Union[MeasureDistances, _Mapping]] = ...) -> None: ...

class Path(_message.Message):
    __slots__ = ("terminal_addresses",)
    TERMINAL_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    terminal_addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, terminal_addresses: _Optional[_Iterable[str]] = ...) -> None: ...

class ReportEvery(_message.Message):
    __slots__ = ("interval_ms",)
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    interval_ms: int
    def __init__(self, interval_ms: _Optional[int] = ...) -> None: ...

class Prefer(_message.Message):
    __slots__ = ("path", "others", "hard")
    PATH_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    HARD_FIELD_NUMBER: _ClassVar[int]
    path: Path
    others: _containers.RepeatedCompositeFieldContainer[Path]
    hard: bool
    def __init__(self, path: _Optional[_Union[Path, _Mapping]] = ..., others: _Optional[_Iterable[_Union[Path, _Mapping]]] = ..., hard: _Optional[bool] = ...) -> None: ...

class Arm(_message.Message):
    __slots__ = ("name", "watched", "fallback", "no_progress_ms", "lease_ms", "no_progress_many_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WATCHED_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    NO_PROGRESS_MS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    NO_PROGRESS_MANY_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    watched: Path
    fallback: Path
    no_progress_ms: int
    lease_ms: int
    no_progress_many_ms: int
    def __init__(self, name: _Optional[str] = ..., watched: _Optional[_Union[Path, _Mapping]] = ..., fallback: _Optional[_Union[Path, _Mapping]] = ..., no_progress_ms: _Optional[int] = ..., lease_ms: _Optional[int] = ..., no_progress_many_ms: _Optional[int] = ...) -> None: ...

class Disarm(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Eliminate(_message.Message):
    __slots__ = ("paths", "numbered_ports", "window_floor_ms", "window_ceiling_ms")
    PATHS_FIELD_NUMBER: _ClassVar[int]
    NUMBERED_PORTS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FLOOR_MS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_CEILING_MS_FIELD_NUMBER: _ClassVar[int]
    paths: _containers.RepeatedCompositeFieldContainer[CopyPath]
    numbered_ports: _containers.RepeatedScalarFieldContainer[str]
    window_floor_ms: int
    window_ceiling_ms: int
    def __init__(self, paths: _Optional[_Iterable[_Union[CopyPath, _Mapping]]] = ..., numbered_ports: _Optional[_Iterable[str]] = ..., window_floor_ms: _Optional[int] = ..., window_ceiling_ms: _Optional[int] = ...) -> None: ...

class CopyPath(_message.Message):
    __slots__ = ("name", "port", "mac")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    MAC_FIELD_NUMBER: _ClassVar[int]
    name: str
    port: str
    mac: str
    def __init__(self, name: _Optional[str] = ..., port: _Optional[str] = ..., mac: _Optional[str] = ...) -> None: ...

class Tunnels(_message.Message):
    __slots__ = ("tunnels", "fitted_ports", "lan_ports")
    TUNNELS_FIELD_NUMBER: _ClassVar[int]
    FITTED_PORTS_FIELD_NUMBER: _ClassVar[int]
    LAN_PORTS_FIELD_NUMBER: _ClassVar[int]
    tunnels: _containers.RepeatedCompositeFieldContainer[Tunnel]
    fitted_ports: _containers.RepeatedScalarFieldContainer[str]
    lan_ports: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tunnels: _Optional[_Iterable[_Union[Tunnel, _Mapping]]] = ..., fitted_ports: _Optional[_Iterable[str]] = ..., lan_ports: _Optional[_Iterable[str]] = ...) -> None: ...

class Tunnel(_message.Message):
    __slots__ = ("name", "port", "vni", "udp_port", "device", "remote", "key", "peer_key", "clear")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    VNI_FIELD_NUMBER: _ClassVar[int]
    UDP_PORT_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    REMOTE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PEER_KEY_FIELD_NUMBER: _ClassVar[int]
    CLEAR_FIELD_NUMBER: _ClassVar[int]
    name: str
    port: str
    vni: int
    udp_port: int
    device: str
    remote: str
    key: bytes
    peer_key: bytes
    clear: bool
    def __init__(self, name: _Optional[str] = ..., port: _Optional[str] = ..., vni: _Optional[int] = ..., udp_port: _Optional[int] = ..., device: _Optional[str] = ..., remote: _Optional[str] = ..., key: _Optional[bytes] = ..., peer_key: _Optional[bytes] = ..., clear: _Optional[bool] = ...) -> None: ...

class Caps(_message.Message):
    __slots__ = ("caps", "lease_ms", "sharers", "block_bytes", "ports")
    CAPS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    SHARERS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_BYTES_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    caps: _containers.RepeatedCompositeFieldContainer[Cap]
    lease_ms: int
    sharers: int
    block_bytes: int
    ports: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, caps: _Optional[_Iterable[_Union[Cap, _Mapping]]] = ..., lease_ms: _Optional[int] = ..., sharers: _Optional[int] = ..., block_bytes: _Optional[int] = ..., ports: _Optional[_Iterable[str]] = ...) -> None: ...

class Cap(_message.Message):
    __slots__ = ("terminal_address", "other_address", "most_segments", "least_segments", "pace_bps")
    TERMINAL_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    OTHER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    MOST_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    LEAST_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    PACE_BPS_FIELD_NUMBER: _ClassVar[int]
    terminal_address: str
    other_address: str
    most_segments: int
    least_segments: int
    pace_bps: int
    def __init__(self, terminal_address: _Optional[str] = ..., other_address: _Optional[str] = ..., most_segments: _Optional[int] = ..., least_segments: _Optional[int] = ..., pace_bps: _Optional[int] = ...) -> None: ...

class AnswerProbes(_message.Message):
    __slots__ = ("sessions",)
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[AnswerSession]
    def __init__(self, sessions: _Optional[_Iterable[_Union[AnswerSession, _Mapping]]] = ...) -> None: ...

class AnswerSession(_message.Message):
    __slots__ = ("number", "key", "health_port", "probe_port")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEALTH_PORT_FIELD_NUMBER: _ClassVar[int]
    PROBE_PORT_FIELD_NUMBER: _ClassVar[int]
    number: int
    key: bytes
    health_port: int
    probe_port: int
    def __init__(self, number: _Optional[int] = ..., key: _Optional[bytes] = ..., health_port: _Optional[int] = ..., probe_port: _Optional[int] = ...) -> None: ...

class HealthProbes(_message.Message):
    __slots__ = ("paths",)
    PATHS_FIELD_NUMBER: _ClassVar[int]
    paths: _containers.RepeatedCompositeFieldContainer[HealthPath]
    def __init__(self, paths: _Optional[_Iterable[_Union[HealthPath, _Mapping]]] = ...) -> None: ...

class HealthPath(_message.Message):
    __slots__ = ("name", "route", "port", "number", "key", "pause_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAUSE_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    route: ProbeRoute
    port: int
    number: int
    key: bytes
    pause_ms: int
    def __init__(self, name: _Optional[str] = ..., route: _Optional[_Union[ProbeRoute, _Mapping]] = ..., port: _Optional[int] = ..., number: _Optional[int] = ..., key: _Optional[bytes] = ..., pause_ms: _Optional[int] = ...) -> None: ...

class ProbeRoute(_message.Message):
    __slots__ = ("device", "local", "remote")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    REMOTE_FIELD_NUMBER: _ClassVar[int]
    device: str
    local: str
    remote: str
    def __init__(self, device: _Optional[str] = ..., local: _Optional[str] = ..., remote: _Optional[str] = ...) -> None: ...

class Probe(_message.Message):
    __slots__ = ("name", "route", "port", "key", "down", "shortest_bytes", "longest_bytes", "step_bytes", "tries", "pause_us", "trains", "train_packets")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    DOWN_FIELD_NUMBER: _ClassVar[int]
    SHORTEST_BYTES_FIELD_NUMBER: _ClassVar[int]
    LONGEST_BYTES_FIELD_NUMBER: _ClassVar[int]
    STEP_BYTES_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    PAUSE_US_FIELD_NUMBER: _ClassVar[int]
    TRAINS_FIELD_NUMBER: _ClassVar[int]
    TRAIN_PACKETS_FIELD_NUMBER: _ClassVar[int]
    name: str
    route: ProbeRoute
    port: int
    key: bytes
    down: bool
    shortest_bytes: int
    longest_bytes: int
    step_bytes: int
    tries: int
    pause_us: int
    trains: int
    train_packets: int
    def __init__(self, name: _Optional[str] = ..., route: _Optional[_Union[ProbeRoute, _Mapping]] = ..., port: _Optional[int] = ..., key: _Optional[bytes] = ..., down: _Optional[bool] = ..., shortest_bytes: _Optional[int] = ..., longest_bytes: _Optional[int] = ..., step_bytes: _Optional[int] = ..., tries: _Optional[int] = ..., pause_us: _Optional[int] = ..., trains: _Optional[int] = ..., train_packets: _Optional[int] = ...) -> None: ...

class Relay(_message.Message):
    __slots__ = ("port", "certificate", "gateways", "allowed", "congestion", "draining", "onward")
    PORT_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    CONGESTION_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    ONWARD_FIELD_NUMBER: _ClassVar[int]
    port: int
    certificate: bytes
    gateways: _containers.RepeatedCompositeFieldContainer[RelayClient]
    allowed: _containers.RepeatedCompositeFieldContainer[PortRange]
    congestion: str
    draining: bool
    onward: _containers.RepeatedCompositeFieldContainer[PortForward]
    def __init__(self, port: _Optional[int] = ..., certificate: _Optional[bytes] = ..., gateways: _Optional[_Iterable[_Union[RelayClient, _Mapping]]] = ..., allowed: _Optional[_Iterable[_Union[PortRange, _Mapping]]] = ..., congestion: _Optional[str] = ..., draining: _Optional[bool] = ..., onward: _Optional[_Iterable[_Union[PortForward, _Mapping]]] = ...) -> None: ...

class RelayClient(_message.Message):
    __slots__ = ("name", "key_sha256")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEY_SHA256_FIELD_NUMBER: _ClassVar[int]
    name: str
    key_sha256: bytes
    def __init__(self, name: _Optional[str] = ..., key_sha256: _Optional[bytes] = ...) -> None: ...

class PortRange(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class PortForward(_message.Message):
    __slots__ = ("port", "address", "other_port")
    PORT_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    OTHER_PORT_FIELD_NUMBER: _ClassVar[int]
    port: int
    address: str
    other_port: int
    def __init__(self, port: _Optional[int] = ..., address: _Optional[str] = ..., other_port: _Optional[int] = ...) -> None: ...

class Intercept(_message.Message):
    __slots__ = ("port", "terminals", "uplinks", "relays", "block", "excepted")
    PORT_FIELD_NUMBER: _ClassVar[int]
    TERMINALS_FIELD_NUMBER: _ClassVar[int]
    UPLINKS_FIELD_NUMBER: _ClassVar[int]
    RELAYS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    EXCEPTED_FIELD_NUMBER: _ClassVar[int]
    port: str
    terminals: _containers.RepeatedCompositeFieldContainer[InterceptedTerminal]
    uplinks: _containers.RepeatedCompositeFieldContainer[InterceptUplink]
    relays: _containers.RepeatedCompositeFieldContainer[InterceptRelay]
    block: bool
    excepted: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, port: _Optional[str] = ..., terminals: _Optional[_Iterable[_Union[InterceptedTerminal, _Mapping]]] = ..., uplinks: _Optional[_Iterable[_Union[InterceptUplink, _Mapping]]] = ..., relays: _Optional[_Iterable[_Union[InterceptRelay, _Mapping]]] = ..., block: _Optional[bool] = ..., excepted: _Optional[_Iterable[str]] = ...) -> None: ...

class InterceptedTerminal(_message.Message):
    __slots__ = ("name", "addresses", "locals")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    LOCALS_FIELD_NUMBER: _ClassVar[int]
    name: str
    addresses: _containers.RepeatedScalarFieldContainer[str]
    locals: _containers.RepeatedCompositeFieldContainer[LocalAddress]
    def __init__(self, name: _Optional[str] = ..., addresses: _Optional[_Iterable[str]] = ..., locals: _Optional[_Iterable[_Union[LocalAddress, _Mapping]]] = ...) -> None: ...

class LocalAddress(_message.Message):
    __slots__ = ("uplink", "addresses")
    UPLINK_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    uplink: str
    addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, uplink: _Optional[str] = ..., addresses: _Optional[_Iterable[str]] = ...) -> None: ...

class InterceptUplink(_message.Message):
    __slots__ = ("name", "port", "gateways")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    name: str
    port: str
    gateways: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., port: _Optional[str] = ..., gateways: _Optional[_Iterable[str]] = ...) -> None: ...

class InterceptRelay(_message.Message):
    __slots__ = ("name", "address", "port", "draining", "onward", "key_sha256")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    ONWARD_FIELD_NUMBER: _ClassVar[int]
    KEY_SHA256_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    port: int
    draining: bool
    onward: _containers.RepeatedCompositeFieldContainer[PortForward]
    key_sha256: bytes
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., port: _Optional[int] = ..., draining: _Optional[bool] = ..., onward: _Optional[_Iterable[_Union[PortForward, _Mapping]]] = ..., key_sha256: _Optional[bytes] = ...) -> None: ...

class Choices(_message.Message):
    __slots__ = ("choices",)
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    choices: _containers.RepeatedCompositeFieldContainer[RelayChoice]
    def __init__(self, choices: _Optional[_Iterable[_Union[RelayChoice, _Mapping]]] = ...) -> None: ...

class RelayChoice(_message.Message):
    __slots__ = ("prefix", "relays", "together")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    RELAYS_FIELD_NUMBER: _ClassVar[int]
    TOGETHER_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    relays: _containers.RepeatedScalarFieldContainer[str]
    together: bool
    def __init__(self, prefix: _Optional[str] = ..., relays: _Optional[_Iterable[str]] = ..., together: _Optional[bool] = ...) -> None: ...

class MeasureDistances(_message.Message):
    __slots__ = ("targets",)
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    targets: _containers.RepeatedCompositeFieldContainer[DistanceTarget]
    def __init__(self, targets: _Optional[_Iterable[_Union[DistanceTarget, _Mapping]]] = ...) -> None: ...

class DistanceTarget(_message.Message):
    __slots__ = ("address", "port", "routers")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    ROUTERS_FIELD_NUMBER: _ClassVar[int]
    address: str
    port: int
    routers: bool
    def __init__(self, address: _Optional[str] = ..., port: _Optional[int] = ..., routers: _Optional[bool] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("directive", "done", "answer", "connections", "took_us")
    DIRECTIVE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    TOOK_US_FIELD_NUMBER: _ClassVar[int]
    directive: int
    done: bool
    answer: str
    connections: int
    took_us: int
    def __init__(self, directive: _Optional[int] = ..., done: _Optional[bool] = ..., answer: _Optional[str] = ..., connections: _Optional[int] = ..., took_us: _Optional[int] = ...) -> None: ...

class ProbeReport(_message.Message):
    __slots__ = ("directive", "reason", "transport", "hardware", "sender_origin_ns", "receiver_origin_ns", "trains", "lengths", "sent_ns", "received_ns", "answered_ns", "returned_ns")
    DIRECTIVE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    HARDWARE_FIELD_NUMBER: _ClassVar[int]
    SENDER_ORIGIN_NS_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_ORIGIN_NS_FIELD_NUMBER: _ClassVar[int]
    TRAINS_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    SENT_NS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_NS_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_NS_FIELD_NUMBER: _ClassVar[int]
    RETURNED_NS_FIELD_NUMBER: _ClassVar[int]
    directive: int
    reason: str
    transport: str
    hardware: bool
    sender_origin_ns: int
    receiver_origin_ns: int
    trains: _containers.RepeatedScalarFieldContainer[int]
    lengths: _containers.RepeatedScalarFieldContainer[int]
    sent_ns: _containers.RepeatedScalarFieldContainer[int]
    received_ns: _containers.RepeatedScalarFieldContainer[int]
    answered_ns: _containers.RepeatedScalarFieldContainer[int]
    returned_ns: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, directive: _Optional[int] = ..., reason: _Optional[str] = ..., transport: _Optional[str] = ..., hardware: _Optional[bool] = ..., sender_origin_ns: _Optional[int] = ..., receiver_origin_ns: _Optional[int] = ..., trains: _Optional[_Iterable[int]] = ..., lengths: _Optional[_Iterable[int]] = ..., sent_ns: _Optional[_Iterable[int]] = ..., received_ns: _Optional[_Iterable[int]] = ..., answered_ns: _Optional[_Iterable[int]] = ..., returned_ns: _Optional[_Iterable[int]] = ...) -> None: ...

class DistancesMeasured(_message.Message):
    __slots__ = ("directive", "distances")
    DIRECTIVE_FIELD_NUMBER: _ClassVar[int]
    DISTANCES_FIELD_NUMBER: _ClassVar[int]
    directive: int
    distances: _containers.RepeatedCompositeFieldContainer[Distance]
    def __init__(self, directive: _Optional[int] = ..., distances: _Optional[_Iterable[_Union[Distance, _Mapping]]] = ...) -> None: ...

class Distance(_message.Message):
    __slots__ = ("address", "reason", "rtt_us", "sent", "lost", "routers")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RTT_US_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    ROUTERS_FIELD_NUMBER: _ClassVar[int]
    address: str
    reason: str
    rtt_us: int
    sent: int
    lost: int
    routers: _containers.RepeatedCompositeFieldContainer[Router]
    def __init__(self, address: _Optional[str] = ..., reason: _Optional[str] = ..., rtt_us: _Optional[int] = ..., sent: _Optional[int] = ..., lost: _Optional[int] = ..., routers: _Optional[_Iterable[_Union[Router, _Mapping]]] = ...) -> None: ...

class Router(_message.Message):
    __slots__ = ("address", "rtt_us")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RTT_US_FIELD_NUMBER: _ClassVar[int]
    address: str
    rtt_us: int
    def __init__(self, address: _Optional[str] = ..., rtt_us: _Optional[int] = ...) -> None: ...

class FailoverFired(_message.Message):
    __slots__ = ("name", "answer", "monotonic_us", "stalled_ms", "connections")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    MONOTONIC_US_FIELD_NUMBER: _ClassVar[int]
    STALLED_MS_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    answer: str
    monotonic_us: int
    stalled_ms: int
    connections: int
    def __init__(self, name: _Optional[str] = ..., answer: _Optional[str] = ..., monotonic_us: _Optional[int] = ..., stalled_ms: _Optional[int] = ..., connections: _Optional[int] = ...) -> None: ...
